// One feature moved over its range while the others stay: the rows to ask for, and the band that they give.
import { element, number, percent, shape } from "./dom.js";

export const STEPS = 41;

// Values at equal distances from `low` to `high`, both included exactly.
export const spread = (low, high, count = STEPS) =>
  Array.from({ length: count }, (_, at) => (at === count - 1 ? high : low + (at * (high - low)) / (count - 1)));

// The row itself, then the same row at each value of the feature.
export const sweepRows = (row, feature, values) => [row, ...values.map((value) => ({ ...row, [feature]: value }))];

// Round numbers that part a range into about `count` pieces.
export function ticks(low, high, count = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}

const MARGIN = { left: 54, right: 14, top: 26, bottom: 40 };
const HEIGHT = 320;
const LINES = 40; // thin lines, one a network

// A prediction without an interval, as of a likelihood that has no noise, is a band without width.
const pointOf = (x, { mean, interval, particles = [] }) => ({
  x, mean, low: interval?.[0] ?? mean, high: interval?.[1] ?? mean, networks: particles.slice(0, LINES),
});

export class Band {
  #range = null; // of the vertical axis: it only grows, so that one sees the band move

  // `target` names what is predicted, above the vertical axis.
  constructor(target) {
    this.target = target;
    this.svg = shape("svg", { role: "img", id: "band", class: "band" });
    this.caption = element("p", { class: "note", id: "band-words" });
    this.body = element("tbody");
    this.head = element("tr");
    this.element = element("div", {},
      this.svg, this.caption,
      element("details", {},
        element("summary", {}, "The same as a table"),
        element("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": "Values of the band" },
          element("table", { class: "values" }, element("thead", {}, this.head), this.body))));
    new ResizeObserver(() => this.drawing && this.#draw()).observe(this.element);
  }

  // Forget the range of the vertical axis, as for another feature.
  reset() {
    this.#range = null;
  }

  // Draw predictions at `values`; `current` is the feature's value now, and `here` the prediction there.
  show({ feature, values, predictions, current, here, level }) {
    const points = predictions.map((prediction, at) => pointOf(values[at], prediction));
    this.drawing = { feature, points, level, now: pointOf(current, here) };
    const ends = [...points, this.drawing.now].flatMap((point) => [point.low, point.high]);
    const [least, most] = [Math.min(...ends), Math.max(...ends)];
    this.#range = this.#range ? [Math.min(this.#range[0], least), Math.max(this.#range[1], most)] : [least, most];
    this.#draw();
    this.#tell();
  }

  #draw() {
    const { feature, points, now } = this.drawing;
    const width = Math.max(260, this.element.clientWidth);
    const [least, most] = this.#range;
    const pad = 0.05 * (most - least || Math.abs(most) || 1);
    const [bottom, top] = [least - pad, most + pad];
    const [first, last] = [points[0].x, points.at(-1).x];
    const x = (value) => MARGIN.left + ((value - first) / (last - first || 1)) * (width - MARGIN.left - MARGIN.right);
    const y = (value) => HEIGHT - MARGIN.bottom - ((value - bottom) / (top - bottom)) * (HEIGHT - MARGIN.top - MARGIN.bottom);
    const path = (list) => list.map(([a, b], at) => `${at ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
    const count = points[0].networks.length;

    const marks = [];
    for (const value of ticks(bottom, top)) {
      marks.push(
        shape("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }),
        shape("text", { x: MARGIN.left - 8, y: y(value) + 4, "text-anchor": "end" }, number(value)));
    }
    for (const value of ticks(first, last, width < 480 ? 4 : 7)) {
      marks.push(shape("text", { x: x(value), y: HEIGHT - MARGIN.bottom + 18, "text-anchor": "middle" }, number(value)));
    }
    marks.push(
      shape("text", { x: width - MARGIN.right, y: HEIGHT - 4, "text-anchor": "end", class: "axis-name" }, feature),
      shape("text", { x: 0, y: 14, class: "axis-name" }, this.target),
      shape("clipPath", { id: "plot" }, shape("rect", {
        x: MARGIN.left, y: MARGIN.top, width: width - MARGIN.left - MARGIN.right, height: HEIGHT - MARGIN.top - MARGIN.bottom,
      })),
      shape("path", { class: "area", d: `${path(points.map((each) => [each.x, each.high]))}L${
        path([...points].reverse().map((each) => [each.x, each.low])).slice(1)}Z` }));
    for (let at = 0; at < count; at += 1) {
      marks.push(shape("path", { class: "network", "clip-path": "url(#plot)", d: path(points.map((each) => [each.x, each.networks[at]])) }));
    }
    marks.push(
      shape("path", { class: "mean", d: path(points.map((each) => [each.x, each.mean])) }),
      shape("line", { class: "now", x1: x(now.x), x2: x(now.x), y1: y(now.low), y2: y(now.high) }),
      ...[now.low, now.high].map((end) =>
        shape("line", { class: "now", x1: x(now.x) - 5, x2: x(now.x) + 5, y1: y(end), y2: y(end) })),
      shape("circle", { class: "now", cx: x(now.x), cy: y(now.mean), r: 5.5 }));
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.svg.replaceChildren(...marks);
  }

  #tell() {
    const { feature, points, level, now } = this.drawing;
    const [first, last] = [points[0], points.at(-1)];
    const widths = points.map((each) => each.high - each.low);
    const widest = points[widths.indexOf(Math.max(...widths))];
    const words = `From ${feature} ${number(first.x)} to ${number(last.x)} the mean goes from ${number(first.mean)} to ${
      number(last.mean)}. The band is widest at ${number(widest.x)}, where it goes from ${number(widest.low)} to ${number(widest.high)}.`;
    this.caption.textContent = words;
    this.svg.setAttribute("aria-label", `${words} At ${number(now.x)}, which is chosen now, the mean is ${number(now.mean)}.`);
    const heads = [feature, "mean", `low end (${percent(level)})`, "high end"];
    this.head.replaceChildren(...heads.map((each) => element("th", { scope: "col" }, each)));
    this.body.replaceChildren(...points.map((point) => element("tr", {},
      element("th", { scope: "row" }, number(point.x)),
      ...[point.mean, point.low, point.high].map((each) => element("td", {}, number(each))))));
  }
}
