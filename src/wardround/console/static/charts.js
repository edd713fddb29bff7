// Curves as SVG: axes, lines that are distinct without colour, and a legend with the values under the pointer.

import { element, figure } from "./formatting.js";

const NARROWEST = 260, HEIGHT = 220; // CSS pixels
const LEFT = 52, RIGHT = 8, TOP = 10, BOTTOM = 24;
const STEPS = [1, 1.5, 2, 3, 4, 5, 6, 8, 10]; // multiplied by a power of ten: the possible ends of an axis
const MOST_POINTS = 400; // of a curve; more would share pixels
const COLOURS = 7, DASHES = 12; // classes in console.css; without a common divisor, so that 84 curves look different
const SAMPLE = 44; // CSS pixels of a line in the legend, enough for the longest dash twice
const NAMESPACE = "http://www.w3.org/2000/svg";

// `series` is a list of {name, points: [[x, y], …]}; `text` formats a value of y; `share` fixes the axis to 0…1.
export function draw(id, series, { text = figure, axis = plain, share = false, unit = "round" } = {}) {
  const place = document.getElementById(id);
  const known = series.filter((one) => one.points.length);
  place.hidden = known.length === 0;
  if (place.hidden) return;
  const width = Math.max(NARROWEST, place.clientWidth - 24); // so that text keeps its size on a phone
  const frame = frameOf(known, share, width);
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img" });
  const values = known.map((one) => `${one.name} ${text(one.points.at(-1)[1])}`).join(", ");
  drawing.setAttribute("aria-label", `${place.querySelector("figcaption").textContent} at the last ${unit}: ${values}`);
  drawing.append(...axes(frame, axis, unit), ...known.map((one, number) => curve(one, number, frame)));
  const legend = legendOf(known, text);
  watch(drawing, known, frame, { legend, text, unit });
  place.querySelector("svg")?.remove();
  place.querySelector(".legend")?.remove();
  place.append(drawing, legend);
}

function frameOf(series, share, width) {
  const xs = series.flatMap((one) => [one.points[0][0], one.points.at(-1)[0]]);
  const ys = series.flatMap((one) => one.points.map((point) => point[1]));
  const most = ys.reduce((a, b) => Math.max(a, b), 0);
  const [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  const y1 = share ? 1 : roundUp(most) || 1;
  return {
    x0, x1, y1, width,
    x: (value) => LEFT + ((value - x0) / (x1 - x0 || 1)) * (width - LEFT - RIGHT),
    y: (value) => HEIGHT - BOTTOM - (value / y1) * (HEIGHT - TOP - BOTTOM),
  };
}

function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return value ? STEPS.find((step) => step * power >= value * (1 - 1e-9)) * power : 0;
}

function plain(value) {
  return value.toLocaleString("en", { maximumSignificantDigits: 3 });
}

function axes(frame, text, unit) {
  const made = [];
  const right = frame.width - RIGHT;
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    const y = frame.y(part * frame.y1);
    made.push(svg("line", { x1: LEFT, x2: right, y1: y, y2: y, class: "axis" }));
    if (part * 2 === Math.round(part * 2)) {
      made.push(label(text(part * frame.y1), { x: LEFT - 6, y: y + 4, "text-anchor": "end" }));
    }
  }
  made.push(label(String(frame.x0), { x: LEFT, y: HEIGHT - 6 }));
  made.push(label(unit, { x: (LEFT + right) / 2, y: HEIGHT - 6, "text-anchor": "middle" }));
  if (frame.x1 > frame.x0) {
    made.push(label(String(frame.x1), { x: right, y: HEIGHT - 6, "text-anchor": "end" }));
  }
  return made;
}

function curve(one, number, frame) {
  const points = thinned(one.points);
  if (points.length === 1) {
    const [x, y] = points[0];
    return svg("circle", { cx: frame.x(x), cy: frame.y(y), r: 3, class: `c${number % COLOURS}`, fill: "currentColor" });
  }
  const path = points.map(([x, y]) => `${frame.x(x).toFixed(1)},${frame.y(y).toFixed(1)}`).join(" ");
  return svg("polyline", { points: path, class: look(number) });
}

function thinned(points) {
  const step = Math.ceil(points.length / MOST_POINTS);
  return points.filter((_, place) => place % step === 0 || place === points.length - 1);
}

function legendOf(series, text) {
  const legend = element("div", "", "legend");
  series.forEach((one, number) => {
    const entry = element("span");
    const sample = svg("svg", { viewBox: `0 0 ${SAMPLE} 8`, "aria-hidden": "true" });
    sample.append(svg("line", { x1: 0, x2: SAMPLE, y1: 4, y2: 4, class: look(number) }));
    entry.append(sample, `${one.name} `, element("b", text(one.points.at(-1)[1])));
    legend.append(entry);
  });
  return legend;
}

function watch(drawing, series, frame, { legend, text, unit }) {
  const cursor = svg("line", { y1: TOP, y2: HEIGHT - BOTTOM, class: "cursor", visibility: "hidden" });
  const where = label("", { y: TOP + 12, class: "tick where", "text-anchor": "middle", visibility: "hidden" });
  drawing.append(cursor, where);
  const say = (x) => series.forEach((one, number) => {
    legend.children[number].querySelector("b").textContent = text(nearest(one.points, x)[1]);
  });
  drawing.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    const at = (((event.clientX - box.left) / box.width) * frame.width - LEFT) / (frame.width - LEFT - RIGHT);
    const [x] = nearest(series[0].points, frame.x0 + at * (frame.x1 - frame.x0));
    for (const name of ["x1", "x2"]) cursor.setAttribute(name, frame.x(x));
    where.setAttribute("x", Math.min(frame.width - 40, Math.max(LEFT + 32, frame.x(x))));
    where.textContent = `${unit} ${x}`;
    for (const one of [cursor, where]) one.setAttribute("visibility", "visible");
    say(x);
  });
  drawing.addEventListener("pointerleave", () => {
    for (const one of [cursor, where]) one.setAttribute("visibility", "hidden");
    say(frame.x1);
  });
}

function nearest(points, x) {
  return points.reduce((a, b) => (Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a));
}

function look(number) {
  return `curve c${number % COLOURS} d${number % DASHES}`;
}

function label(text, attributes) {
  const made = svg("text", { class: "tick", ...attributes });
  made.textContent = text;
  return made;
}

function svg(name, attributes) {
  const made = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
