"use strict";
const found = (id) => document.getElementById(id);
let types = [];

// The token stays in the page's memory: it is neither stored nor part of an address.
async function ask(path, body) {
  const headers = found("token").value ? { Authorization: "Bearer " + found("token").value } : {};
  const options = { headers, credentials: "omit", cache: "no-store" };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  }
  const answer = await fetch(path, options);
  const value = await answer.json();
  if (answer.ok) return value;
  if (answer.status === 401) found("token-field").hidden = false;
  throw new Error(answer.status === 401 ? "Enter the token of this service." : value.error.message);
}

function say(text, isError) {
  found("message").textContent = text;
  found("message").className = isError ? "bad" : "";
}

function colour(type) {
  const place = types.indexOf(type);
  return place < 0 ? "" : "k" + (place % 7);
}

// Offsets count characters, and JavaScript counts the halves of some of them.
function show(title, text, marks) {
  const characters = Array.from(text);
  const parts = [];
  let end = 0;
  for (const mark of marks) {
    if (mark.start < end) continue;
    const piece = document.createElement("mark");
    const label = document.createElement("small");
    label.textContent = mark.type;
    piece.className = colour(mark.type);
    piece.append(characters.slice(mark.start, mark.end).join(""), label);
    parts.push(characters.slice(end, mark.start).join(""), piece);
    end = mark.end;
  }
  found("title").textContent = title;
  found("marked").replaceChildren(...parts, characters.slice(end).join(""));
  found("result").hidden = false;
}

function list(entities) {
  const rows = entities.map((entity) => {
    const row = document.createElement("tr");
    const score = entity.score === null ? "–" : entity.score.toFixed(3);
    [entity.type, entity.text, entity.start, entity.end, score].forEach((value, column) => {
      const cell = row.insertCell();
      cell.textContent = value;
      if (column > 1) cell.className = "number";
    });
    return row;
  });
  found("entities").tBodies[0].replaceChildren(...rows);
  found("entities").hidden = rows.length === 0;
}

async function describe() {
  const model = await ask("v1/model");
  types = model.types;
  const scores = model.scores_are_calibrated ? "calibrated scores" : "scores that were not calibrated";
  found("model").textContent = `${model.kind} that finds ${types.join(", ")}; ${scores}.`;
  found("redact").hidden = found("how-field").hidden = !model.can_redact;
}

async function act(work) {
  const buttons = document.querySelectorAll("button");
  buttons.forEach((button) => { button.disabled = true; });
  say("Reading …");
  try {
    if (!types.length) await describe();
    await work(found("text").value);
  } catch (error) {
    say(error instanceof TypeError ? "The service does not answer." : error.message, true);
  } finally {
    buttons.forEach((button) => { button.disabled = false; });
  }
}

found("form").addEventListener("submit", (event) => {
  event.preventDefault();
  act(async (text) => {
    const answer = await ask("v1/predict", { text });
    show("Entities", text, answer.entities);
    list(answer.entities);
    const count = answer.entities.length;
    say(count === 0 ? "Nothing was found." : count === 1 ? "1 entity." : `${count} entities.`);
  });
});
found("redact").addEventListener("click", () => {
  act(async (text) => {
    const answer = await ask("v1/redact", { text, how: found("how").value });
    show("Redacted", answer.text, answer.marks);
    list([]);
    say(`${answer.marks.length} places were hidden. A model misses some: read the text before you share it.`);
  });
});
describe().catch((error) => { found("model").textContent = error.message; });
