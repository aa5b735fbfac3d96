// Sliders for the columns of a table, and the choice of the column that is swept.
import { element, number } from "./dom.js";
import { Band, spread, sweepRows } from "./sweep.js";

// A round step that parts a range into some two hundred: a power of ten, or twice or five times one.
export function roundStep(low, high) {
  const rough = (high - low) / 200;
  if (!(rough > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5].map((each) => each * power).find((each) => each >= rough) ?? 10 * power;
  return Number(step.toPrecision(6));
}

const short = (value) => number(Number(value.toPrecision(3)));
const rounded = (value, step) => Number((Math.round(value / step) * step).toPrecision(10));

export class Table {
  constructor(info, changed) {
    this.info = info;
    this.changed = changed;
    this.columns = info.inputs.columns;
    this.values = {};
    this.fields = this.columns.map((column, at) =>
      (column.kind === "category" ? this.#select(column, at) : this.#slider(column, at)));
    const reset = element("button", { type: "button", id: "reset" }, "Back to the middle");
    reset.addEventListener("click", () => {
      this.fields.forEach((field) => field.reset());
      changed(true);
    });
    this.element = element("div", { class: "table-form" },
      element("div", { class: "features" }, ...this.fields.map((field) => field.element)),
      element("div", { class: "buttons" }, reset));
    this.numeric = this.columns.filter((column) => column.kind !== "category" && column.high > column.low);
    if (info.kind === "numbers" && info.outputs === 1 && this.numeric.length) this.#chart();
  }

  // The rows that are sent to the server: the chosen one, then those of the sweep.
  inputs() {
    const row = { ...this.values };
    if (!this.band) return [row];
    this.swept = spread(this.feature.low, this.feature.high);
    return sweepRows(row, this.feature.name, this.swept);
  }

  #chart() {
    this.feature = this.numeric[0];
    this.band = new Band(this.info.target ?? "prediction");
    const choice = element("select", { id: "sweep" },
      ...this.numeric.map((column) => element("option", { value: column.name }, column.name)));
    choice.addEventListener("change", () => {
      this.feature = this.numeric.find((column) => column.name === choice.value);
      this.band.reset();
      this.changed(true);
    });
    this.chart = element("section", { class: "block chart" },
      element("h3", {}, "If one feature moves, and the others stay"),
      element("p", { class: "sweep-choice" }, element("label", { for: "sweep" }, "Feature along the axis"), " ", choice),
      this.band.element);
  }

  #slider(column, at) {
    const { name, low, high } = column;
    const step = roundStep(low, high);
    const middle = rounded(column.middle ?? (low + high) / 2, step);
    const range = element("input", { type: "range", id: `feature-${at}`, min: low, max: high, step: "any" });
    const exact = element("input", { type: "number", step: "any", "aria-label": `${name}, as a number` });
    const set = (value, from) => {
      this.values[name] = value;
      if (from !== range) range.value = value;
      if (from !== exact) exact.value = value;
      range.setAttribute("aria-valuetext", String(value));
      exact.removeAttribute("aria-invalid");
    };
    range.addEventListener("input", () => {
      const value = rounded(Number(range.value), step);
      set(Math.min(Math.max(value, low), high), range);
      this.changed(false);
    });
    range.addEventListener("change", () => this.changed(true));
    // Without a step of their own, arrow keys would move a hundredth of nothing in particular.
    range.addEventListener("keydown", (event) => {
      const moves = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 20, PageDown: -20 };
      if (!(event.key in moves)) return;
      event.preventDefault();
      const value = rounded(this.values[name] + moves[event.key] * step, step);
      set(Math.min(Math.max(value, low), high));
      this.changed(true);
    });
    exact.addEventListener("input", () => {
      if (exact.value.trim() === "" || !Number.isFinite(exact.valueAsNumber)) {
        exact.setAttribute("aria-invalid", "true");
        return;
      }
      set(exact.valueAsNumber, exact);
      this.changed(true);
    });
    set(middle);
    return {
      reset: () => set(middle),
      element: element("div", { class: "feature" },
        element("label", { for: range.id }, name), range, exact,
        element("span", { class: "ends", "aria-hidden": "true" },
          element("span", {}, short(low)), element("span", {}, short(high)))),
    };
  }

  #select(column, at) {
    const { name, levels } = column;
    const first = column.middle ?? levels[0];
    const choice = element("select", { id: `feature-${at}` },
      ...levels.map((level) => element("option", { value: level }, String(level))));
    const reset = () => {
      choice.value = first;
      this.values[name] = first;
    };
    choice.addEventListener("change", () => {
      this.values[name] = levels[choice.selectedIndex];
      this.changed(true);
    });
    reset();
    return {
      reset,
      element: element("div", { class: "feature" }, element("label", { for: choice.id }, name), choice),
    };
  }
}
