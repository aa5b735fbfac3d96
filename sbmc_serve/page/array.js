// Inputs that are neither pictures nor tables: one row as JSON.
import { element } from "./dom.js";

// An array of a shape, filled with a value.
const filled = (shape, value) =>
  (shape.length ? Array.from({ length: shape[0] }, () => filled(shape.slice(1), value)) : value);

export class ArrayForm {
  constructor(info, changed) {
    const { shape, low, high } = info.inputs;
    const middle = Number.isFinite(low) && Number.isFinite(high) ? (low + high) / 2 : 0;
    this.text = element("textarea", { id: "row", rows: 8, spellcheck: false, "aria-describedby": "row-help row-wrong" });
    this.text.value = JSON.stringify(filled(shape, middle));
    this.wrong = element("p", { id: "row-wrong", class: "wrong", role: "status" });
    this.value = filled(shape, middle);
    this.text.addEventListener("input", () => {
      try {
        this.value = JSON.parse(this.text.value);
      } catch {
        this.wrong.textContent = "This is not JSON yet: numbers in square brackets, with commas between them.";
        this.text.setAttribute("aria-invalid", "true");
        return;
      }
      this.wrong.textContent = "";
      this.text.removeAttribute("aria-invalid");
      changed(true);
    });
    this.element = element("div", { class: "array-form" },
      element("label", { for: "row" }, "One input, as JSON"),
      this.text,
      element("p", { id: "row-help", class: "note" }, `Numbers in an array of shape ${shape.join(" × ") || "one number"}.`),
      this.wrong);
  }

  inputs() {
    return [this.value];
  }
}
