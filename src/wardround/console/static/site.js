// The page of one study at a site: sizes of the messages it sent, never their content.

import { draw } from "./charts.js";
import { follow, lostText, showConnection, applyEach } from "./stream.js";
import { axisSize, clock, count, put, row, showLog, showWarnings, sizeText, span } from "./formatting.js";

const { address, patience } = document.getElementById("run").dataset;
let skew = 0;
let sent, steps, byRound, log, last, lost, faults = [];
reset();

follow(address, (chunk) => {
  skew = chunk.now - Date.now() / 1000;
  if (chunk.restarted) reset();
  lost += applyEach(chunk.events, apply);
  show();
}, showConnection);
setInterval(showStatus, 1000);
setInterval(refresh, 5000);
addEventListener("resize", show);
refresh();

function reset() {
  [sent, steps, byRound, log, last, lost] = [{ messages: 0, bytes: 0 }, new Map(), new Map(), [], null, 0];
}

function apply(event) {
  sent = { messages: sent.messages + 1, bytes: sent.bytes + event.bytes };
  const known = steps.get(event.step) || { messages: 0, bytes: 0 };
  steps.set(event.step, { messages: known.messages + 1, bytes: known.bytes + event.bytes, time: event.time });
  byRound.set(event.round, (byRound.get(event.round) || 0) + event.bytes);
  log.push([event.time, `round ${event.round} ${event.step}: ${sizeText(event.bytes)}, ${event.mechanism}`]);
  if (log.length > 200) log.splice(0, 100);
  last = event;
}

function show() {
  put("number", last ? count(last.round) : "–");
  put("messages", count(sent.messages));
  put("bytes", sizeText(sent.bytes));
  const rows = [...steps].map(([step, known]) =>
    row([[step], [count(known.messages), "number"], [sizeText(known.bytes), "number"], [clock(known.time), "wide"]]));
  document.querySelector("#steps tbody").replaceChildren(...rows);
  const points = [...byRound].sort((a, b) => a[0] - b[0]);
  draw("bytes-chart", [{ name: "up", points }], { text: sizeText, axis: axisSize });
  showLog(log);
  showStatus();
  document.getElementById("run").dataset.current = sent.messages; // lets tests wait for a message
}

function showStatus() {
  const quiet = last ? Date.now() / 1000 + skew - last.time : null;
  put("last", last ? `${span(quiet)} ago` : "–");
  const pill = document.getElementById("state");
  const [name, text] = stateOf(quiet);
  pill.className = `pill ${name}`;
  pill.textContent = text;
}

function stateOf(quiet) {
  if (!last) return ["", "nothing sent yet"];
  if (last.step === "finish") return ["finished", "finished"];
  return quiet > Number(patience) ? ["quiet", `no event for ${span(quiet)}`] : ["running", "taking part"];
}

async function refresh() {
  const facts = await fetch(`/facts/${address}`).then((answer) => answer.json()).catch(() => null);
  if (!facts) return;
  const { accepted, entries, bytes_out, head, fault, troubles } = facts.site;
  put("accepted", accepted === null ? "a test on one machine" : accepted ? "accepted" : "not accepted");
  put("ledger", fault ? "The chain of the ledger is broken." : `Intact: ${count(entries)} entries, ${count(bytes_out)} bytes sent.`);
  put("head", head || "–");
  faults = fault ? [`Ledger: ${fault}`] : [];
  for (const { time, step, round, code } of troubles.slice(-5)) {
    faults.push(step ? `${time} ${step} of round ${round} failed (${code})` : `${time} a request was refused (${code})`);
  }
  showWarnings(lost ? [...faults, lostText(lost)] : faults);
}
