// The answer in words and bars: what is said, who agrees, and why it is unsure.
import { element, listed, nats, number, percent } from "./dom.js";

const COLOURS = 10; // classes beyond them use the colours again: letters tell them apart

const share = (part, whole) => (whole > 0 ? part / whole : 0);
const nameOf = (info, index) => String(info.classes?.[index] ?? index);

// The position of the largest number, the first of equals.
export const largest = (values) => values.reduce((best, value, at) => (value > values[best] ? at : best), 0);

// How many networks vote for each class: [[class, votes], ...], most votes first.
export function countVotes(particles) {
  const votes = new Map();
  for (const probabilities of particles) {
    const label = largest(probabilities);
    votes.set(label, (votes.get(label) ?? 0) + 1);
  }
  return [...votes].sort(([a, first], [b, second]) => second - first || a - b);
}

// The votes as a sentence: "71 of 80 networks say 3, 6 say 8 and 3 say 5."
export function wordsOfVotes(votes, info) {
  const all = votes.reduce((sum, [, count]) => sum + count, 0);
  if (all === 1) return `One network alone: it says ${nameOf(info, votes[0][0])}.`;
  if (votes.length === 1) return `All ${all} networks say ${nameOf(info, votes[0][0])}.`;
  const [[first, most], ...others] = votes;
  const shown = others.slice(0, 4).map(([label, count]) => `${count} say ${nameOf(info, label)}`);
  const rest = others.slice(4).reduce((sum, [, count]) => sum + count, 0);
  if (rest) shown.push(`${rest} something else`);
  return `${most} of ${all} networks say ${nameOf(info, first)}, ${listed(shown)}.`;
}

export function wordsOfAgreement(votes) {
  const all = votes.reduce((sum, [, count]) => sum + count, 0);
  const agreeing = share(votes[0][1], all);
  if (all === 1) return "There is nobody to disagree with it.";
  if (agreeing >= 0.95) return "The networks agree.";
  if (agreeing >= 0.75) return "Most networks agree.";
  if (agreeing >= 0.5) return "The networks are divided.";
  return "The networks contradict one another.";
}

// Why a prediction is withheld.
function reasonOf(prediction, info) {
  const rule = info.abstention;
  if (rule?.words) return rule.words;
  if (info.abstains === "confidence") {
    const score = prediction.score == null ? "" : ` of ${nats(prediction.score)}`;
    return `Its confidence${score} is below what was asked of it.`;
  }
  return "Its uncertainty is above the threshold that was set.";
}

export class Answer {
  constructor() {
    this.label = element("p", { class: "label", id: "label" });
    this.says = element("p", { class: "says", id: "says" });
    this.reason = element("p", { class: "reason", id: "reason" });
    this.verdict = element("div", { class: "verdict", id: "verdict" }, this.label,
      element("div", {}, this.says, this.reason));
    this.details = element("div", { class: "details" });
    this.element = element("div", { class: "answer" }, this.verdict, this.details);
  }

  // Show a prediction, and return the sentence that a screen reader is to say.
  show(prediction, info, weights) {
    const spoken = info.kind === "classes" ? this.#classes(prediction, info, weights) : this.#numbers(prediction, info);
    this.element.classList.toggle("abstains", prediction.abstain === true);
    return spoken;
  }

  #classes(prediction, info, weights) {
    const { probabilities } = prediction;
    const particles = prediction.particles ?? [probabilities];
    const top = largest(probabilities);
    const votes = countVotes(particles);
    const agreement = wordsOfAgreement(votes);
    const guess = `${nameOf(info, top)}, at ${percent(probabilities[top])}`;
    this.verdict.dataset.class = top % COLOURS;
    if (prediction.abstain) {
      this.label.textContent = "abstains";
      this.says.textContent = `Its best guess would be ${guess}.`;
      this.reason.textContent = reasonOf(prediction, info);
    } else {
      this.label.textContent = nameOf(info, top);
      this.says.textContent = percent(probabilities[top]);
      this.reason.textContent = agreement;
    }
    this.details.replaceChildren(
      this.#bars(probabilities, info),
      this.#mosaic(particles, votes, info, weights),
      this.#parts(prediction, Math.log(probabilities.length), "nats"),
    );
    const said = prediction.abstain ? `It abstains. ${this.says.textContent}` : `The answer is ${guess}.`;
    return `${said} ${wordsOfVotes(votes, info)} Uncertainty ${nats(prediction.total)}, of which disagreement ${nats(prediction.epistemic)}.`;
  }

  #bars(probabilities, info) {
    const rows = probabilities.map((probability, at) => {
      const bar = element("span", { class: "bar", "data-class": at % COLOURS });
      bar.style.width = `${100 * probability}%`;
      return element("tr", { class: at === largest(probabilities) ? "top" : "" },
        element("th", { scope: "row" }, nameOf(info, at)),
        element("td", { class: "track" }, bar),
        element("td", { class: "value" }, percent(probability)));
    });
    return element("section", { class: "block" },
      element("h3", { id: "probabilities-heading" }, "Probabilities"),
      element("table", { class: "bars", id: "probabilities", "aria-labelledby": "probabilities-heading" },
        element("thead", { class: "visually-hidden" },
          element("tr", {}, ...["class", "bar", "probability"].map((each) => element("th", { scope: "col" }, each)))),
        element("tbody", {}, ...rows)));
  }

  #mosaic(particles, votes, info, weights) {
    const cells = particles.map((probabilities) => {
      const label = largest(probabilities);
      const name = nameOf(info, label);
      const cell = element("span", { "data-class": label % COLOURS, title: `${name}, at ${percent(probabilities[label])}` },
        name.length > 2 ? name.slice(0, 2) : name);
      cell.style.setProperty("--sure", probabilities[label]);
      return cell;
    });
    const words = wordsOfVotes(votes, info);
    const mosaic = element("div", { class: "mosaic", id: "particles", role: "img", "aria-label": words }, ...cells);
    const all = info.particles > particles.length && particles.length > 1
      ? ` Shown are ${particles.length} of ${info.particles}.` : "";
    const unequal = weights && Math.max(...weights) > 1.01 * Math.min(...weights)
      ? " They do not weigh the same: the probabilities take account of it." : "";
    return element("section", { class: "block" },
      element("h3", {}, "Each network's vote"),
      mosaic,
      element("p", { id: "votes" }, `${words}${all}${unequal}`));
  }

  // The two parts of uncertainty as a stacked bar; `scale` is what fills it.
  #parts(prediction, scale, unit) {
    const { total, aleatoric, epistemic } = prediction;
    const part = (name, value) => {
      const bar = element("span", { class: name });
      bar.style.width = `${100 * Math.min(1, share(Math.max(0, value), scale))}%`;
      return bar;
    };
    const figure = unit === "nats" ? nats
      : (value) => `${percent(share(value, total))} of the variance, a standard deviation of ${number(Math.sqrt(Math.max(0, value)))}`;
    const whole = unit === "nats" ? `${nats(total)} of at most ${nats(scale)} nats`
      : `a standard deviation of ${number(Math.sqrt(total))}`;
    const item = (name, title, value, words) => element("div", { class: "part" },
      element("dt", {}, element("span", { class: `key ${name}`, "aria-hidden": "true" }), `${title} (${name}): `,
        element("b", { id: name }, figure(value))),
      element("dd", {}, words));
    return element("section", { class: "block" },
      element("h3", {}, "Uncertainty, in two parts"),
      element("div", { class: "stack", role: "img",
        "aria-label": `Total ${whole}: noise ${figure(aleatoric)}, disagreement ${figure(epistemic)}` },
      part("aleatoric", aleatoric), part("epistemic", epistemic)),
      element("p", { class: "note" }, "Total: ", element("b", { id: "total" }, whole)),
      element("dl", {},
        item("aleatoric", "Noise", aleatoric, "What each network by itself cannot tell. More data of this kind would not help."),
        item("epistemic", "Disagreement", epistemic, "What the networks tell differently, for want of data like this. More of it would help.")));
  }

  #numbers(prediction, info) {
    const outputs = [prediction.mean].flat();
    const first = outputs.length === 1;
    const pick = (value, at) => (Array.isArray(value) ? value[at] : value);
    const interval = (at) => (first ? [prediction.interval].flat(1).slice(0, 2) : prediction.interval[at]);
    const level = percent(prediction.level ?? info.level);
    const words = outputs.map((mean, at) => {
      const [low, high] = interval(at).flat();
      return `${number(mean)}, ${level} interval from ${number(low)} to ${number(high)}`;
    });
    this.verdict.dataset.class = 0;
    this.label.textContent = prediction.abstain ? "abstains" : outputs.map(number).join(" · ");
    const [low, high] = interval(0).flat();
    this.says.textContent = first
      ? `${prediction.abstain ? `Its best guess would be ${number(outputs[0])}. ` : ""}${level} of the time between ${number(low)} and ${number(high)}`
      : words.map((each, at) => `output ${at + 1}: ${each}`).join("; ");
    this.reason.textContent = prediction.abstain ? reasonOf(prediction, info) : "";
    const parts = outputs.map((_, at) => {
      const one = Object.fromEntries(["total", "aleatoric", "epistemic"].map((name) => [name, pick(prediction[name], at)]));
      return this.#parts(one, one.total, "variance");
    });
    this.details.replaceChildren(...parts.slice(0, 1));
    return `${prediction.abstain ? "It abstains. Its best guess would be" : "The answer is"} ${listed(words)}.`;
  }
}
