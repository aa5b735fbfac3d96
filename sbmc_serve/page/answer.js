// The answer in words and bars: what is said, who agrees, and why it is unsure.
import { element, listed, nats, number, percent } from "./dom.js";

const PARTS = ["total", "aleatoric", "epistemic"];
const BARS = 12; // of many classes, the most probable ones are shown
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
  if (rest) shown.push(`${rest} say something else`);
  return `${most} of ${all} networks say ${nameOf(info, first)}, ${listed(shown)}.`;
}

// What the votes come to if networks do not weigh the same.
export function wordsOfWeights(particles, weights, info) {
  const shares = particles[0].map(() => 0);
  particles.forEach((probabilities, at) => { shares[largest(probabilities)] += weights[at]; });
  const whole = shares.reduce((sum, each) => sum + each, 0);
  const top = largest(shares);
  return `They do not weigh the same: by weight, ${nameOf(info, top)} has ${percent(share(shares[top], whole))} of the votes.`;
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
  show(prediction, info, { weights, note }) {
    const spoken = info.kind === "classes" ? this.#classes(prediction, info, weights, note) : this.#numbers(prediction, info);
    this.element.classList.toggle("abstains", prediction.abstain === true);
    this.label.classList.toggle("long", this.label.textContent.length > 3);
    return spoken;
  }

  #classes(prediction, info, weights, note) {
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
      this.brief = `abstains · perhaps ${guess}`;
    } else {
      this.label.textContent = nameOf(info, top);
      this.says.textContent = percent(probabilities[top]);
      this.reason.textContent = agreement;
      this.brief = `${guess} · ${agreement}`;
    }
    this.details.replaceChildren(
      this.#bars(probabilities, info),
      this.#mosaic(particles, votes, info, weights, note),
      this.#parts(prediction, Math.log(probabilities.length), "nats"),
    );
    const said = prediction.abstain ? `It abstains. ${this.says.textContent}` : `The answer is ${guess}.`;
    return `${said} ${wordsOfVotes(votes, info)} Uncertainty ${nats(prediction.total)}, of which disagreement ${nats(prediction.epistemic)}.`;
  }

  #bars(probabilities, info) {
    const top = largest(probabilities);
    const all = probabilities.map((probability, at) => ({ probability, at }));
    const shown = all.length > BARS ? all.sort((a, b) => b.probability - a.probability).slice(0, BARS) : all;
    const rows = shown.map(({ probability, at }) => {
      const bar = element("span", { class: "bar", "data-class": at % COLOURS });
      bar.style.width = `${100 * probability}%`;
      return element("tr", { class: at === top ? "top" : "" },
        element("th", { scope: "row" }, nameOf(info, at)),
        element("td", { class: "track" }, bar),
        element("td", { class: "value" }, percent(probability)));
    });
    const others = probabilities.length - shown.length;
    return element("section", { class: "block" },
      element("h3", { id: "probabilities-heading" }, "Probabilities"),
      element("table", { class: "bars", id: "probabilities", "aria-labelledby": "probabilities-heading" },
        element("thead", { class: "visually-hidden" },
          element("tr", {}, ...["class", "bar", "probability"].map((each) => element("th", { scope: "col" }, each)))),
        element("tbody", {}, ...rows)),
      ...(others > 0 ? [element("p", { class: "note" }, `The other ${others} classes are less probable.`)] : []));
  }

  #mosaic(particles, votes, info, weights, note) {
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
    const unequal = weights && Math.max(...weights) > 1.01 * Math.min(...weights) ? ` ${wordsOfWeights(particles, weights, info)}` : "";
    return element("section", { class: "block" },
      element("h3", {}, "Each network's vote"),
      mosaic,
      element("p", { id: "votes" }, words),
      ...(note || unequal ? [element("p", { class: "note" }, `${note ?? ""}${unequal}`.trim())] : []));
  }

  // The two parts of uncertainty as a stacked bar; `scale` is what fills it.
  #parts(prediction, scale, unit, whose = "") {
    const { total, aleatoric, epistemic } = prediction;
    const part = (name, value) => {
      const bar = element("span", { class: name });
      bar.style.width = `${100 * Math.min(1, share(Math.max(0, value), scale))}%`;
      return bar;
    };
    const root = (value) => number(Math.sqrt(Math.max(0, value)));
    const figure = unit === "nats" ? nats : (value) => percent(share(value, total));
    const whole = unit === "nats" ? `${nats(total)} of at most ${nats(scale)} nats` : `a standard deviation of ${root(total)}; its square, the variance, has two parts`;
    const item = (name, title, value, words) => element("div", { class: "part" },
      element("dt", { "data-part": name }, element("span", { class: `key ${name}`, "aria-hidden": "true" }), `${title} (${name}): `,
        element("b", { class: "figure" }, figure(value))),
      element("dd", {}, unit === "nats" ? words : `A standard deviation of ${root(value)} by itself. ${words}`));
    return element("section", { class: "block" },
      element("h3", {}, `Uncertainty${whose}, in two parts`),
      element("div", { class: "stack", role: "img",
        "aria-label": `Total ${whole}: noise ${figure(aleatoric)}, disagreement ${figure(epistemic)}` },
      part("aleatoric", aleatoric), part("epistemic", epistemic)),
      element("p", { class: "note" }, "Total: ", element("b", { class: "total" }, whole)),
      element("dl", {},
        item("aleatoric", "Noise", aleatoric, "What each network by itself cannot tell. More data of this kind would not help."),
        item("epistemic", "Disagreement", epistemic, "What the networks tell differently, for want of data like this. More of it would help.")));
  }

  #numbers(prediction, info) {
    const level = percent(prediction.level ?? info.level);
    const several = Array.isArray(prediction.mean);
    const outputs = several
      ? prediction.mean.map((mean, at) => ({
        mean, interval: prediction.interval?.[at], ...Object.fromEntries(PARTS.map((part) => [part, prediction[part][at]])),
      }))
      : [prediction];
    const means = listed(outputs.map(({ mean }) => number(mean)));
    const intervals = outputs.filter(({ interval }) => interval)
      .map(({ interval: [low, high] }) => `between ${number(low)} and ${number(high)}`);
    const usually = intervals.length ? `${level} of the time ${listed(intervals)}` : "";
    this.verdict.dataset.class = 0;
    this.label.textContent = prediction.abstain ? "abstains" : means;
    this.says.textContent = prediction.abstain ? `Its best guess would be ${means}, ${usually}.` : usually;
    this.reason.textContent = prediction.abstain ? reasonOf(prediction, info) : "";
    this.details.replaceChildren(...outputs.map((output, at) =>
      this.#parts(output, output.total, "variance", several ? ` of output ${at + 1}` : "")));
    this.brief = prediction.abstain ? `abstains · perhaps ${means}` : `${means} · ${listed(intervals)}`;
    return `${prediction.abstain ? "It abstains. Its best guess would be" : "The answer is"} ${means}, ${usually}.`;
  }
}
