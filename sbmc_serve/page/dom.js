// Small helpers for elements and for numbers in words.

const ATTRIBUTES = /^(aria-|data-|role$|for$|tabindex$|colspan$|scope$)/;

// An element with its properties and children; `class` and attributes of roles are attributes.
export function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") node.className = value;
    else if (ATTRIBUTES.test(name)) node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children);
  return node;
}

// An element of SVG, whose properties are all attributes.
export function shape(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export function percent(share) {
  const whole = Math.round(100 * share);
  if (whole === 0 && share > 0) return "<1\u00a0%";
  if (whole === 100 && share < 1) return ">99\u00a0%";
  return `${whole}\u00a0%`;
}

const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
export const number = (value) => plain.format(value).replace("-", "−");
// Entropies are shown to two digits.
export const nats = (value) => Math.max(0, value).toFixed(2);

// "a, b and c"
export function listed(words) {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`;
}
