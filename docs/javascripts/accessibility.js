// What the theme leaves out for those who use a keyboard or listen to a page.

const FRAMES = ".md-typeset__scrollwrap, .md-typeset pre > code";

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
}

// Tables and code that are wider than the page scroll inside themselves: the keyboard has to reach them.
function reach(frame) {
  if (frame.scrollWidth > frame.clientWidth) {
    const label = frame.matches("code") ? "Code" : `Table: ${title(frame)}`;
    set(frame, { tabindex: "0", role: "group", "aria-label": label });
  } else if (frame.hasAttribute("role")) {
    ["tabindex", "role", "aria-label"].forEach((name) => frame.removeAttribute(name));
  }
}

// The heading above an element.
function title(element) {
  const above = [...document.querySelectorAll("article :is(h1, h2, h3)")].filter(
    (each) => each.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING,
  );
  return above.length ? above.pop().firstChild.textContent.trim() : document.title;
}

function improve() {
  document.querySelectorAll(FRAMES).forEach(reach);
  // The corner above a column of names heads nothing.
  for (const head of document.querySelectorAll("article th:empty")) {
    head.replaceWith(document.createElement("td"));
  }
  // A button for copying is no landmark.
  for (const buttons of document.querySelectorAll("nav.md-code__nav")) set(buttons, { role: "none" });
  document.querySelectorAll(".md-search").forEach((each) => set(each, { "aria-label": "Search" }));
}

// The theme adds frames and buttons after the page is there, and takes `tabindex` away from code that was
// narrow before its font had come.
const changes = { childList: true, subtree: true, attributeFilter: ["tabindex"] };
new MutationObserver(improve).observe(document.body, changes);
new ResizeObserver(improve).observe(document.body);
document.fonts.ready.then(improve);
improve();
