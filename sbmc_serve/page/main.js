// The page: asks what is served, shows the fitting form, and keeps the answer up to date.
import { Answer } from "./answer.js";
import { Questions, fetchInfo } from "./api.js";
import { ArrayForm } from "./array.js";
import { element, number } from "./dom.js";
import { Pad } from "./pad.js";
import { Table } from "./table.js";

const PAUSE = 60; // milliseconds between questions while a pen or slider moves
const QUIET = 700; // milliseconds without a change before a screen reader is told the answer
const FORMS = { image: Pad, table: Table, array: ArrayForm };
const TITLES = {
  image: ["Draw something, and see whether the networks agree", "What do you draw?"],
  table: ["Move the sliders, and see how sure the networks are", "What do you ask about?"],
  array: ["Ask the networks, and see how sure they are", "What do you ask about?"],
};

const by = (id) => document.getElementById(id);

class Page {
  constructor({ models, default: first }) {
    // Ascending s; models without one come last, by name.
    this.models = [...models].sort((a, b) => (a.s ?? Infinity) - (b.s ?? Infinity) || a.name.localeCompare(b.name));
    this.info = this.models.find((model) => model.name === first) ?? this.models[0];
    this.questions = new Questions({
      answered: (answer, question) => this.#answered(answer, question),
      failed: (words) => this.#trouble(`The question was refused. ${words}`),
      lost: (words) => this.#trouble(`${words} It is asked again every few seconds; what is shown below may be out of date.`, true),
    });
    this.order = 0; // of the newest question
    this.answer = new Answer();
    this.form = new FORMS[this.info.inputs.kind](this.info, (finished) => this.#ask(finished));
    this.#build();
    if (this.form.show) this.form.show(this.info.classes?.map(String).includes("3") ? "3" : "scribble");
    else this.#ask(true);
  }

  #build() {
    const [title, heading] = TITLES[this.info.inputs.kind];
    by("title").textContent = title;
    by("lead").textContent = this.#lead();
    by("input-heading").textContent = heading;
    by("input").append(this.form.element);
    if (this.models.length > 1) {
      by("choice").append(this.#strength());
      by("choice").hidden = false;
    }
    by("answer").append(this.answer.element);
    if (this.form.chart) this.answer.verdict.after(this.form.chart);
    by("work").hidden = false;
    by("loading").remove();
    document.body.dataset.kind = this.info.inputs.kind;
    for (const each of document.querySelectorAll("[data-for]")) {
      each.hidden = !each.dataset.for.split(" ").includes(this.info.kind) && !each.dataset.for.split(" ").includes(this.info.inputs.kind);
    }
    this.#health();
  }

  #lead() {
    const { particles, about } = this.models.reduce((most, each) => (each.particles > most.particles ? each : most));
    const who = particles > 1 ? `${particles} networks, drawn from one posterior, answer at once. ` : "";
    return `${who}${about ?? this.info.about ?? ""}`.trim();
  }

  // The choice among the posteriors: a slider over s, or a list if they differ in something else.
  #strength() {
    const known = this.models.every((model) => model.s != null) && new Set(this.models.map((model) => model.s)).size === this.models.length;
    const at = this.models.indexOf(this.info);
    const choose = (index) => {
      this.info = this.models[index];
      this.#health();
      this.#ask(true);
    };
    if (!known) {
      const list = element("select", { id: "strength" },
        ...this.models.map((model) => element("option", { value: model.name }, model.s == null ? model.name : `${model.name}, s = ${model.s}`)));
      list.selectedIndex = at;
      list.addEventListener("change", () => choose(list.selectedIndex));
      return element("div", { class: "strength" }, element("label", { for: "strength" }, "Posterior"), " ", list);
    }
    const slider = element("input", { type: "range", id: "strength", min: 0, max: this.models.length - 1, step: 1, value: at });
    const output = element("output", { id: "strength-value", for: "strength" });
    const words = element("p", { class: "note", id: "strength-words" });
    slider.setAttribute("aria-describedby", "strength-words");
    const tell = () => {
      const { s, particles } = this.info;
      output.textContent = `s = ${number(s)}`;
      slider.setAttribute("aria-valuetext", s === 0 ? "s = 0, the trained network alone" : `s = ${number(s)}, ${particles} networks`);
      words.textContent = s === 0
        ? "The trained network alone: a point estimate, which has no disagreement to show."
        : s === 1 ? "The full posterior: the networks go wherever data and prior allow."
          : "Between the two: as s grows, so does the room that the networks have around the trained one.";
    };
    slider.addEventListener("input", () => {
      choose(Number(slider.value));
      tell();
    });
    tell();
    return element("div", { class: "strength" },
      element("div", { class: "strength-head" }, element("label", { for: "strength" }, "How far the networks may stray from the trained one"), output),
      slider,
      element("div", { class: "stops", "aria-hidden": "true" }, ...this.models.map((model) => element("span", {}, number(model.s)))),
      words);
  }

  #health() {
    const { health } = this.info;
    const list = (title, items) => (items?.length
      ? [element("p", {}, element("b", {}, title)), element("ul", {}, ...items.map((each) => element("li", {}, each)))] : []);
    by("health").replaceChildren(...(health && !health.ok ? [element("div", { class: "unwell" },
      element("h2", {}, `This posterior is ${health.word}`),
      element("p", {}, "Its answers may be off, above all its uncertainty."),
      ...list("What was found", health.reasons),
      ...list("What helps", health.remedies))] : []));
  }

  // Ask about what the form holds; `finished` is false while a pen or slider is still moving, and then there is a
  // pause between questions.
  #ask(finished) {
    clearTimeout(this.speech);
    this.order += 1;
    this.finished = finished;
    by("answer").setAttribute("aria-busy", "true");
    if (finished) this.#askNow();
    else this.timer ??= setTimeout(() => this.#askNow(), PAUSE);
  }

  #askNow() {
    clearTimeout(this.timer);
    this.timer = null;
    const inputs = this.form.inputs();
    const { info, order, finished } = this;
    const sweep = this.form.band && { values: this.form.swept, feature: this.form.feature.name };
    const body = { inputs, model: info.name, particles: true };
    this.questions.ask({ body, info, order, finished, sweep, current: inputs[0] });
  }

  #answered(answer, { info, order, finished, sweep, current }) {
    const [here, ...others] = answer.predictions;
    const words = this.answer.show(here, info, answer);
    if (sweep) {
      this.form.band.show({
        ...sweep, predictions: others, here, current: current[sweep.feature], level: here.level ?? info.level,
      });
    }
    this.#noTrouble();
    by("brief").textContent = this.answer.brief;
    if (order < this.order) return; // something was changed meanwhile: its answer is to be spoken
    by("answer").setAttribute("aria-busy", "false");
    if (finished) this.speech = setTimeout(() => { by("spoken").textContent = words; }, QUIET);
  }

  // Say what went wrong. What is said already stays, and with it the keyboard's place on the button.
  #trouble(words, retry = false) {
    by("answer").setAttribute("aria-busy", "false");
    if (by("trouble").dataset.words === words) return;
    by("trouble").dataset.words = words;
    const button = element("button", { type: "button", id: "retry" }, "Ask now");
    button.addEventListener("click", () => this.questions.retry());
    by("trouble").replaceChildren(element("div", { class: "unwell" }, element("p", {}, words), ...(retry ? [button] : [])));
  }

  #noTrouble() {
    by("trouble").replaceChildren();
    delete by("trouble").dataset.words;
  }
}

async function start() {
  let info;
  try {
    info = await fetchInfo();
  } catch (error) {
    by("loading").textContent = `${error.message} Start it by “sbmc serve”; this page asks again in 3 s.`;
    setTimeout(start, 3000);
    return;
  }
  new Page(info);
}

start();
