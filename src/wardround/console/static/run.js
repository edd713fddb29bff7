// The page of one run at the coordinator.

import { draw } from "./charts.js";
import { RunState } from "./state.js";
import { follow, lostText, showConnection, applyEach } from "./stream.js";
import { axisSize, count, element, figure, put, row, showLog, showWarnings, sizeText, span } from "./formatting.js";

const MOST_CURVES = 10; // sites with a curve each; with more, their mean is drawn
const MOST_ROWS = 100;
const SITE_COLUMNS = ["dev F1", "best", "test F1", "absences", "up", "down"];
const PUBLIC_SET_FIGURES = {
  teacher_accuracy: "teacher correct",
  student_before: "student correct, before",
  student_accuracy: "student correct, after",
  agreement: "student agrees with teacher",
};

const { address, rounds, patience, sites } = document.getElementById("run").dataset;
const state = new RunState(sites ? sites.split(" ") : []);
let skew = 0; // seconds by which this machine's clock is behind the server's
let waiting = false;

follow(address, (chunk) => {
  skew = chunk.now - Date.now() / 1000;
  if (chunk.restarted) state.reset();
  state.lost += applyEach(chunk.events, (event) => state.apply(event));
  if (!waiting) requestAnimationFrame(show);
  waiting = true;
}, showConnection);
setInterval(showStatus, 1000);
setInterval(lookForReport, 3000);
addEventListener("resize", showCharts);

function show() {
  waiting = false;
  showStatus();
  showTiles();
  showCharts();
  showSites();
  showWarnings(warnings());
  showLog(state.log);
  document.getElementById("run").dataset.current = state.current; // lets tests wait for a round
}

function showStatus() {
  const quiet = Date.now() / 1000 + skew - state.last;
  const pill = document.getElementById("state");
  const silent = state.status !== "finished" && state.last && quiet > Number(patience);
  pill.className = `pill ${silent ? "quiet" : state.status}`;
  pill.textContent = silent ? `no event for ${span(quiet)}` : state.status;
  const pace = state.pace();
  const known = state.status === "running" && !silent && pace !== null;
  put("left", known ? span(pace * (rounds - state.current)) : "–");
}

function showTiles() {
  put("number-name", state.epochs ? "epoch" : "round");
  put("number", count(state.current));
  put("of", Number(rounds) ? ` of ${count(Number(rounds))}` : "");
  put("loss", figure(state.rounds.get(state.current)?.loss));
  put("f1-name", state.epochs ? "dev F1" : "mean dev F1");
  const scored = [...state.scored.values()].at(-1);
  const best = state.best();
  put("f1", figure(scored?.mean_f1));
  put("best", figure(best?.mean_f1));
  put("best-at", best ? ` at ${count(best.round)}` : "");
  showFinal();
  showPresence();
  put("up", sizeText(state.total("up")));
  put("down", sizeText(state.total("down")));
  for (const tile of document.querySelectorAll(".federated")) tile.hidden = state.epochs;
  const bar = document.getElementById("progress");
  bar.hidden = !Number(rounds);
  bar.value = state.status === "finished" ? 1 : state.current / (Number(rounds) || 1);
}

// The final score replaces the time left.
function showFinal() {
  const done = state.status === "finished";
  document.getElementById("left-tile").hidden = done || !Number(rounds);
  document.getElementById("final-tile").hidden = !done;
  put("final-name", state.epochs ? "final F1" : "mean test F1");
  put("final", figure(state.finalF1()));
}

function showPresence() {
  const states = [...state.sites.values()].map((site) => site.state);
  if (state.status === "finished") { // no site is expected any more
    put("online-name", "sites");
    put("online", count(states.length || null));
    put("online-of", "");
    return;
  }
  // If a round asks only some sites, the state of the others is unknown.
  const partly = states.includes("unknown") && state.rounds.size;
  put("online-name", partly ? "sites that answered" : "sites online");
  const here = partly ? state.rounds.get(state.current)?.answered : states.filter((one) => one === "online").length;
  put("online", states.length ? count(here) : "–");
  put("online-of", states.length ? ` of ${count(states.length)}` : "");
}

// A new chart makes the others narrower; draw them again, or their text would shrink.
function showCharts() {
  const shown = () => document.querySelectorAll(".charts figure:not([hidden])").length;
  const before = shown();
  drawCharts();
  if (shown() !== before) drawCharts();
}

function drawCharts() {
  const unit = state.epochs ? "epoch" : "round";
  const scored = sorted(state.scored), done = sorted(state.rounds);
  const names = [...new Set(scored.flatMap((event) => Object.keys(event.f1)))];
  const mean = { name: state.epochs ? "F1" : "mean", points: points(scored, (event) => event.mean_f1) };
  const each = names.map((name) => ({ name, points: points(scored, (event) => event.f1[name]) }));
  draw("f1-chart", names.length && names.length <= MOST_CURVES ? each : [mean], { share: true, unit });
  draw("loss-chart", [{ name: "loss", points: points(done, (event) => event.loss) }], { unit });
  draw("teaching-chart", publicSetCurves(done), { share: true });
  const ways = ["up", "down"].map((way) => ({ name: way, points: points(done, (event) => event[way]) }));
  draw("bytes-chart", ways, { text: sizeText, axis: axisSize });
}

function publicSetCurves(done) {
  const known = done.filter((event) => event.figures);
  const names = [...new Set(known.flatMap((event) => Object.keys(event.figures)))];
  return names.filter((name) => PUBLIC_SET_FIGURES[name.split("/").at(-1)]).map((name) => {
    const [last, head] = name.split("/").reverse();
    return { name: `${head ? `${head}: ` : ""}${PUBLIC_SET_FIGURES[last]}`, points: points(known, (event) => event.figures[name]) };
  });
}

function showSites() {
  document.getElementById("sites-section").hidden = state.sites.size === 0;
  const scored = sorted(state.scored), passed = state.totalBySite();
  const rows = [...state.sites].sort((a, b) => away(b[1]) - away(a[1])).slice(0, MOST_ROWS);
  const shown = rows.map(([name, site]) => {
    const f1 = scored.map((event) => event.f1[name]).filter((value) => value !== undefined);
    const word = stateWord(site);
    const label = element("span", site.code ? `${word} (${site.code})` : word, tone(site.state));
    const best = f1.reduce((a, b) => Math.max(a, b), -Infinity);
    const figures = f1.length ? [figure(f1.at(-1)), figure(best)] : ["–", "–"];
    const ways = (passed.get(name) || []).map(sizeText).reverse();
    const test = figure(state.final?.f1[name]);
    const cells = [...figures, test, count(site.absences), ...(ways.length ? ways : ["–", "–"])];
    const look = (text) => (text === "–" ? "number none" : "number");
    return row([[name], [label], ...cells.map((text, place) => [text, look(text), SITE_COLUMNS[place]])]);
  });
  document.querySelector("#sites tbody").replaceChildren(...shown);
  const more = document.getElementById("more-sites");
  more.hidden = state.sites.size <= MOST_ROWS;
  more.textContent = `${MOST_ROWS} of ${state.sites.size} sites, absent ones first`;
}

function warnings() {
  const found = state.failures.slice(-5).map((event) => `Round ${event.round} failed: ${event.reason}`);
  for (const [name, site] of state.sites) {
    if (away(site) && state.status !== "finished") found.push(`${name} is ${site.state} (${site.code || "unknown reason"})`);
  }
  const clipped = sorted(state.rounds).filter((event) => event.clipped > 0);
  if (clipped.length) found.push(`Numbers in updates were clipped in ${clipped.length} rounds, last in ${clipped.at(-1).round}`);
  for (const event of sorted(state.rounds).filter((one) => one.rejected).slice(-5)) {
    found.push(`Round ${event.round} was rejected: ${event.notice}`);
  }
  if (state.lost) found.unshift(lostText(state.lost));
  return found.slice(0, 20);
}

async function lookForReport() {
  const place = document.getElementById("report");
  if (!place.hidden || state.status !== "finished") return;
  const facts = await fetch(`/facts/${address}`).then((answer) => answer.json()).catch(() => ({}));
  place.hidden = !facts.report;
}

function sorted(known) {
  return [...known.values()].sort((a, b) => a.round - b.round);
}

function points(events, value) {
  return events.map((event) => [event.round, value(event)]).filter(([, y]) => y !== null && y !== undefined);
}

function away(site) {
  return site.state !== "online" && site.state !== "unknown";
}

function stateWord(site) {
  if (site.state === "unknown") return "–";
  return site.state === "online" && state.status === "finished" ? "done" : site.state;
}

function tone(state) {
  return { online: "good", unknown: "", late: "wait" }[state] ?? "bad";
}
