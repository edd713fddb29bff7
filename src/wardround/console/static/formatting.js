// Formatting and DOM helpers shared by the pages of the console.

const UNITS = [["GB", 1e9], ["MB", 1e6], ["KB", 1e3]];

export function sizeText(count) {
  for (const [unit, size] of UNITS) {
    if (count >= size) return `${(count / size).toLocaleString("en", fixed(1))} ${unit}`;
  }
  return `${count} B`;
}

// Shorter, for an axis.
export function axisSize(count) {
  return sizeText(Math.round(count)).replace(".0 ", " ");
}

export function figure(value, digits = 3) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en", fixed(digits));
}

export function count(value) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en");
}

export function clock(seconds) {
  return seconds ? new Date(seconds * 1000).toTimeString().slice(0, 8) : "";
}

export function span(seconds) {
  if (!(seconds >= 0)) return "–";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

export function put(id, text) {
  const place = document.getElementById(id);
  if (place.textContent !== text) place.textContent = text;
}

export function element(name, text = "", className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

// Cells are [text or node, class, column name to show on a narrow page].
export function row(cells) {
  const made = document.createElement("tr");
  cells.forEach(([text, className, name], place) => {
    const cell = element(place ? "td" : "th", "", className || "");
    if (!place) cell.scope = "row";
    if (name) cell.dataset.name = name;
    cell.append(text);
    made.append(cell);
  });
  return made;
}

// The newest lines first; each is [seconds, text].
export function showLog(lines) {
  const shown = lines.slice(-80).reverse().map(([time, text]) => {
    const line = document.createElement("li");
    line.append(element("time", clock(time)), text);
    return line;
  });
  document.getElementById("log").replaceChildren(...shown);
}

export function showWarnings(texts) {
  document.getElementById("warnings-section").hidden = texts.length === 0;
  document.getElementById("warnings").replaceChildren(...texts.map((text) => element("li", text)));
}

function fixed(digits) {
  return { minimumFractionDigits: digits, maximumFractionDigits: digits };
}
