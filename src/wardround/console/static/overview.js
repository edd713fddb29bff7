// The list of runs, refreshed every few seconds.

import { showConnection } from "./stream.js";
import { count, element, figure, row, span } from "./formatting.js";

const INTERVAL = 3000; // milliseconds
const table = document.getElementById("runs");

refresh();
setInterval(refresh, INTERVAL);

async function refresh() {
  try {
    const answer = await fetch("/list");
    if (answer.status === 401) location.assign("/login");
    show(await answer.json());
    showConnection(true);
  } catch {
    showConnection(false);
  }
}

function show({ now, runs }) {
  document.getElementById("none").hidden = runs.length > 0;
  table.querySelector("tbody").replaceChildren(...runs.map((run) => rowOf(run, now)));
}

function rowOf(run, now) {
  const { state, number, f1, time } = run.summary;
  const quiet = state !== "finished" && time !== null && now - time > run.patience;
  const site = table.dataset.role === "site";
  const link = element("a", site ? run.name || run.key : run.key);
  link.href = `/run/${run.address}`;
  const pill = element("span", quiet ? "quiet" : state, `pill ${quiet ? "quiet" : state}`);
  const round = number === null ? "–" : run.rounds ? `${count(number)} / ${count(run.rounds)}` : count(number);
  const name = element("span");
  name.append(link, ...(run.row ? [element("small", run.row)] : []));
  const cells = [[name], ...(site ? [[run.site.name]] : []), [pill], [round, "number", "round"]];
  if (!site) cells.push([figure(f1), "number", "dev F1"]);
  cells.push([run.algorithm || (state === "unreadable" ? "–" : "one site")], [run.mechanism || "–", run.mechanism ? "" : "none"]);
  cells.push([time === null ? "–" : `${span(now - time)} ago`]);
  if (!site) cells.push([reportOf(run), run.report ? "" : "none"]);
  return row(cells);
}

function reportOf(run) {
  if (!run.report) return "–";
  const link = element("a", "report");
  link.href = `/report/${run.address}`;
  return link;
}
