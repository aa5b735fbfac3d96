// What the theme leaves out for those who use a keyboard or listen to a page.

const FRAMES = ".md-typeset__scrollwrap, .md-typeset pre > code";

// Tables and code that are wider than the page scroll inside themselves: the keyboard has to reach them.
function reach(frame) {
  if (frame.scrollWidth > frame.clientWidth) {
    frame.tabIndex = 0;
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", frame.matches("code") ? "Code" : `Table: ${title(frame)}`);
  } else {
    ["tabindex", "role", "aria-label"].forEach((each) => frame.removeAttribute(each));
  }
}

// The heading above an element.
function title(element) {
  const above = [...document.querySelectorAll("article :is(h1, h2, h3)")].filter(
    (each) => each.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING,
  );
  return above.length ? above.pop().firstChild.textContent.trim() : document.title;
}

const sizes = new ResizeObserver((entries) => entries.forEach((each) => reach(each.target)));

function improve() {
  for (const frame of document.querySelectorAll(FRAMES)) sizes.observe(frame);
  // The corner above a column of names heads nothing.
  for (const head of document.querySelectorAll("article th:empty")) {
    head.replaceWith(document.createElement("td"));
  }
  // A button for copying is no landmark.
  for (const buttons of document.querySelectorAll("nav.md-code__nav")) buttons.setAttribute("role", "none");
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
}

// The theme adds frames and buttons after the page is there.
new MutationObserver(improve).observe(document.body, { childList: true, subtree: true });
improve();
