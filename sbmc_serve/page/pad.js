// The field to draw on, and the small picture that the network sees, which can be painted by keyboard.
import { FULL, shrink, toInput } from "./drawing.js";
import { element } from "./dom.js";
import { EXAMPLES } from "./examples.js";

const PEN = 0.065; // width of the pen that is shown, as a part of the field
const NEAR = 0.004; // points nearer to the last one than this add nothing
const SHADE = FULL / 4; // what + and - add to a cell
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

const INSTRUCTIONS = "Arrow keys move from cell to cell. Space fills or empties a cell, plus and minus make it darker or "
  + "lighter, and Shift with an arrow key paints along the way.";

export class Pad {
  #states = [{ strokes: [], cells: {} }]; // each change adds one, so that it can be undone
  #stroke = null; // the stroke under the pen
  #at = [0, 0]; // row and column of the keyboard's cell

  // `changed(finished)` is called after each change; `finished` is false while a stroke is being drawn.
  constructor(info, changed) {
    this.info = info;
    this.changed = changed;
    [this.rows, this.columns] = info.inputs.shape.slice(-2);
    this.counts = new Array(this.rows * this.columns).fill(0);
    this.element = this.#build();
    this.#listen();
    new ResizeObserver(() => this.#draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
  }

  // The rows that are sent to the server: one.
  inputs() {
    const { shape, low, high } = this.info.inputs;
    return [toInput(this.counts, shape, low ?? 0, high ?? 1)];
  }

  get strokes() {
    return this.#states.at(-1).strokes;
  }

  show(name) {
    this.#change({ strokes: EXAMPLES.get(name), cells: {} });
  }

  #build() {
    this.canvas = element("canvas", {
      id: "field", role: "img",
      "aria-label": "A field to draw on with mouse, pen or finger. By keyboard, paint the small picture instead.",
    });
    this.undo = element("button", { type: "button", id: "undo" }, "Undo");
    this.clear = element("button", { type: "button", id: "clear" }, "Clear");
    this.cells = this.counts.map((_, at) => {
      const cell = element("div", { role: "gridcell", tabindex: at ? "-1" : "0", class: "cell" });
      cell.dataset.at = at;
      return cell;
    });
    const rows = Array.from({ length: this.rows }, (_, row) =>
      element("div", { role: "row", class: "row" }, ...this.cells.slice(row * this.columns, (row + 1) * this.columns)));
    this.grid = element("div", {
      id: "seen", role: "grid", class: this.columns > 16 ? "seen fine" : "seen",
      "aria-label": `The picture that the network sees, ${this.rows} rows of ${this.columns} cells`,
      "aria-describedby": "seen-help",
    }, ...rows);
    this.grid.style.setProperty("--columns", this.columns);
    return element("div", { class: "pad" },
      element("div", { class: "fields" },
        element("div", { class: "square" },
          element("h3", {}, "You draw"),
          this.canvas,
          element("div", { class: "buttons" }, this.undo, this.clear)),
        element("div", { class: "square" },
          element("h3", {}, "The network sees"),
          this.grid,
          element("p", { id: "seen-help", class: "note" }, INSTRUCTIONS))),
      this.#examples());
  }

  // The examples, parted into what the network has learnt and what it was never shown.
  #examples() {
    const classes = this.info.classes?.map(String) ?? [];
    const names = [...EXAMPLES.keys()];
    const known = names.filter((name) => classes.includes(name));
    const button = (name) => element("button", { type: "button", class: "example", "data-example": name },
      name === "A" ? "letter A" : name);
    const group = (words, list) => element("div", { class: "examples", role: "group", "aria-label": words },
      element("span", { class: "note", "aria-hidden": "true" }, words), ...list.map(button));
    if (!known.length) return group("Examples", names);
    return element("div", {},
      group("Learnt", known),
      group("Never shown", names.filter((name) => !known.includes(name))));
  }

  #listen() {
    this.element.addEventListener("click", (event) => {
      const name = event.target.closest("[data-example]")?.dataset.example;
      if (name) this.show(name);
    });
    this.clear.addEventListener("click", () => this.show("empty"));
    this.undo.addEventListener("click", () => {
      if (this.#states.length > 1) this.#states.pop();
      this.#refresh(true);
    });
    this.#listenToPen();
    this.#listenToCells();
  }

  #listenToPen() {
    const { canvas } = this;
    const add = (event) => {
      const box = canvas.getBoundingClientRect();
      const inside = (value) => Math.min(Math.max(value, 0), 1);
      const point = [inside((event.clientX - box.left) / box.width), inside((event.clientY - box.top) / box.height)];
      const last = this.#stroke.at(-1);
      if (!last || Math.hypot(point[0] - last[0], point[1] - last[1]) > NEAR) this.#stroke.push(point);
    };
    const finish = (event) => {
      if (!this.#stroke || event.pointerId !== this.pointer) return;
      this.#stroke = null;
      this.#refresh(true);
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button || this.#stroke) return;
      canvas.setPointerCapture(event.pointerId);
      this.pointer = event.pointerId;
      this.#stroke = [];
      add(event);
      const { strokes, cells } = this.#states.at(-1);
      this.#states.push({ strokes: [...strokes, this.#stroke], cells });
      this.#refresh(false);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.#stroke || event.pointerId !== this.pointer) return;
      const events = event.getCoalescedEvents?.() ?? [];
      for (const each of events.length ? events : [event]) add(each);
      this.#refreshSoon();
    });
    canvas.addEventListener("pointerup", finish);
    canvas.addEventListener("pointercancel", finish);
  }

  #listenToCells() {
    const toggled = (at) => (this.counts[at] * 2 > FULL ? 0 : FULL);
    this.grid.addEventListener("click", (event) => {
      const at = event.target.dataset.at;
      if (at === undefined) return;
      this.#focus(Math.floor(at / this.columns), at % this.columns);
      this.#paint(at, toggled(at));
    });
    this.grid.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const [row, column] = this.#at;
      const at = row * this.columns + column;
      if (event.key in STEPS) {
        const [down, right] = STEPS[event.key];
        this.#focus(row + down, column + right);
        if (event.shiftKey) this.#paint(this.#at[0] * this.columns + this.#at[1], FULL);
      } else if (event.key === "Home") this.#focus(row, 0);
      else if (event.key === "End") this.#focus(row, this.columns - 1);
      else if (event.key === " " || event.key === "Enter") this.#paint(at, toggled(at));
      else if (event.key === "+" || event.key === "=") this.#paint(at, Math.min(FULL, this.counts[at] + SHADE));
      else if (event.key === "-") this.#paint(at, Math.max(0, this.counts[at] - SHADE));
      else if (event.key === "Delete" || event.key === "Backspace") this.#paint(at, 0);
      else return;
      event.preventDefault();
    });
  }

  #focus(row, column) {
    this.cells[this.#at[0] * this.columns + this.#at[1]].tabIndex = -1;
    this.#at = [Math.min(Math.max(row, 0), this.rows - 1), Math.min(Math.max(column, 0), this.columns - 1)];
    const cell = this.cells[this.#at[0] * this.columns + this.#at[1]];
    cell.tabIndex = 0;
    cell.focus();
  }

  #paint(at, count) {
    const { strokes, cells } = this.#states.at(-1);
    this.#change({ strokes, cells: { ...cells, [at]: count } });
  }

  #change(state) {
    this.#states.push(state);
    this.#refresh(true);
  }

  // At most once a frame: a pen moves more often than that.
  #refreshSoon() {
    this.frame ??= requestAnimationFrame(() => this.#refresh(false));
  }

  #refresh(finished) {
    cancelAnimationFrame(this.frame); // what it would show is shown now
    this.frame = null;
    const { strokes, cells } = this.#states.at(-1);
    this.counts = shrink(strokes, this.rows, this.columns);
    for (const [at, count] of Object.entries(cells)) this.counts[at] = count;
    this.counts.forEach((count, at) => {
      const cell = this.cells[at];
      cell.style.setProperty("--ink-share", count / FULL);
      const words = count === 0 ? "empty" : count === FULL ? "full" : `${count} of ${FULL}`;
      cell.setAttribute("aria-label", `row ${Math.floor(at / this.columns) + 1}, column ${at % this.columns + 1}: ${words}`);
    });
    this.undo.disabled = this.#states.length < 2;
    this.#draw();
    this.changed(finished);
  }

  #draw() {
    const { canvas } = this;
    const size = Math.max(1, Math.round(canvas.clientWidth * devicePixelRatio));
    if (canvas.width !== size || canvas.height !== size) Object.assign(canvas, { width: size, height: size });
    const pen = canvas.getContext("2d");
    pen.clearRect(0, 0, size, size);
    const colour = getComputedStyle(canvas).color;
    Object.assign(pen, {
      strokeStyle: colour, shadowColor: colour, shadowBlur: size * PEN * 0.18, lineWidth: size * PEN,
      lineCap: "round", lineJoin: "round",
    });
    for (const stroke of this.strokes) {
      pen.beginPath();
      pen.moveTo(stroke[0][0] * size, stroke[0][1] * size);
      for (const [x, y] of stroke.length > 1 ? stroke : [stroke[0]]) pen.lineTo(x * size, y * size);
      pen.stroke();
    }
  }
}
