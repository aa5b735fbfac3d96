"use strict";
// The page is whole without this: it adds sorting, values under the pointer, and a short contents list.
(() => {
  const tip = document.getElementById("tip");
  const SVG = "http://www.w3.org/2000/svg";

  // Sorting: the rows of one body stay together, so that the paper's line follows ours.
  const exact = (body, column) => {
    const cell = body.rows[0].cells[column];
    if (!cell) return "";
    if (!cell.hasAttribute("data-v")) return cell.textContent.trim() === "–" ? "" : cell.textContent.trim();
    const number = Number(cell.getAttribute("data-v"));
    return Number.isNaN(number) ? cell.getAttribute("data-v") : number;
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  for (const table of document.querySelectorAll("table.sortable")) {
    const headings = [...table.tHead.rows[0].cells];
    const original = [...table.tBodies];
    headings.forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      if (!button.textContent.trim()) button.textContent = "row";
      heading.append(button);
      button.addEventListener("click", () => {
        const before = heading.getAttribute("aria-sort");
        const numeric = original.some((body) => typeof exact(body, column) === "number");
        const first = numeric ? "descending" : "ascending";
        const second = numeric ? "ascending" : "descending";
        const next = before === first ? second : before === second ? null : first;
        headings.forEach((other) => other.removeAttribute("aria-sort"));
        const sign = next === "descending" ? -1 : 1;
        const bodies = [...original];
        if (next) {
          heading.setAttribute("aria-sort", next);
          bodies.sort((one, two) => {
            const a = exact(one, column), b = exact(two, column);
            if (a === "" || b === "") return (a === "") - (b === ""); // what is missing comes last
            return sign * compare(a, b);
          });
        }
        table.append(...bodies);
      });
    });
  }

  // Values under the pointer.
  const place = (event) => {
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const x = event.clientX + 14 + width > innerWidth ? event.clientX - width - 14 : event.clientX + 14;
    const y = event.clientY + 14 + height > innerHeight ? event.clientY - height - 14 : event.clientY + 14;
    tip.style.left = `${Math.max(4, x)}px`;
    tip.style.top = `${Math.max(4, y)}px`;
  };
  const hide = () => { tip.hidden = true; };
  for (const title of document.querySelectorAll("figure svg title")) {
    const owner = title.parentNode, words = title.textContent;
    owner.setAttribute("data-tip", words);
    title.remove();
    owner.addEventListener("pointermove", (event) => { tip.textContent = words; place(event); event.stopPropagation(); });
    owner.addEventListener("pointerleave", hide);
  }
  for (const svg of document.querySelectorAll("svg[data-hover]")) {
    const [low, high, start, end, log] = svg.dataset.hover.split(" ").map(Number);
    const [top, bottom] = svg.dataset.band.split(" ");
    const table = svg.closest("figure").querySelector("table");
    const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    const rows = [...table.tBodies].flatMap((body) => [...body.rows]);
    const places = rows.map((row) => Number(row.cells[0].getAttribute("data-v")));
    const scale = log ? Math.log : (value) => value;
    const cross = document.createElementNS(SVG, "line");
    cross.setAttribute("class", "cross");
    cross.setAttribute("y1", top);
    cross.setAttribute("y2", bottom);
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      if (x < start - 8 || x > end + 8) { cross.remove(); hide(); return; }
      const at = scale(low) + ((x - start) / (end - start)) * (scale(high) - scale(low));
      let nearest = 0;
      places.forEach((value, i) => {
        if (Math.abs(scale(value) - at) < Math.abs(scale(places[nearest]) - at)) nearest = i;
      });
      const mark = start + ((scale(places[nearest]) - scale(low)) / (scale(high) - scale(low))) * (end - start);
      cross.setAttribute("x1", mark);
      cross.setAttribute("x2", mark);
      svg.append(cross);
      tip.replaceChildren(...[...rows[nearest].cells].map((cell, i) => {
        const line = document.createElement("div"), name = document.createElement("span"), value = document.createElement("b");
        name.textContent = names[i];
        value.textContent = cell.textContent;
        line.append(name, value);
        return line;
      }));
      place(event);
    });
    svg.addEventListener("pointerleave", () => { cross.remove(); hide(); });
  }
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  addEventListener("scroll", hide, { passive: true });

  // On a narrow screen the contents list would push the answer off it.
  if (matchMedia("(max-width: 69.99rem)").matches) document.getElementById("contents").open = false;
  // On paper, what is folded is unfolded, but for the data of figures and the paper's tables: those that are open are
  // printed.
  addEventListener("beforeprint", () => {
    for (const each of document.querySelectorAll("section > details:not(.more)")) each.open = true;
  });
})();
