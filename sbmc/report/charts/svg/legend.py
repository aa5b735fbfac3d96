"""The legend of a chart, as a list above its picture."""

from __future__ import annotations

from collections.abc import Sequence

from sbmc.report.charts.style import KeyEntry
from sbmc.report.charts.svg.canvas import marker
from sbmc.report.markup import Html, el, join

# The class of the style sheet for a line of no series.
_LINES = {"guide": "guide", "axis": "plain", "mark": "reference"}
_PATCHES = {"pale": "any pale", "full": "any"}


def draw_legend(entries: Sequence[KeyEntry]) -> Html | None:
    """The list of entries; None if there are none."""
    items = []
    for entry in entries:
        swatch = el("svg", _sample(entry), viewBox="0 0 32 16", class_="key", aria_hidden="true")
        note = el("b", entry.note) if entry.note else None
        items.append(el("li", swatch, el("span", entry.label, note and " ", note)))
    return el("ul", *items, class_="legend") if items else None


def _sample(entry: KeyEntry) -> Html:
    box = {"x": 3, "y": 2, "width": 26, "height": 12}
    ends = {"x1": 1, "x2": 31, "y1": 8, "y2": 8}
    if entry.sample in _PATCHES:
        return el("rect", **box, class_=_PATCHES[entry.sample])
    if entry.style is None:
        return el("line", **ends, class_=_LINES[entry.sample], stroke_dasharray=entry.dashes)
    colour = f"s{entry.style.colour}"
    if entry.sample == "bar":
        return el("g", el("rect", **box), class_=f"bar {colour}")
    line = el("line", **ends, class_=f"line {colour}", stroke_dasharray=entry.style.dashes)
    return join((line, marker(entry.style, 16, 8, 4) if entry.marked else None))
