"""Bar charts as SVG; the name of a group stands above its bars, so that they fit a phone."""

from __future__ import annotations

import math

from sbmc.report.charts.bars import Bar, BarChart
from sbmc.report.charts.svg.canvas import WIDTH, Scale, svg, text
from sbmc.report.markup import Html, el

_BAR, _GAP, _TITLE = 13, 4, 20
_LEFT, _RIGHT = 10, 50


def draw_bars(chart: BarChart, alt: str) -> Html:
    """Draw groups of bars; the picture is as high as it needs to be."""
    axis = chart.axis
    across = Scale(0.0, axis.high, _LEFT, WIDTH - _RIGHT)
    y = 6.0
    parts: list[Html] = []
    for group, bars in chart.groups:
        parts.append(text(_LEFT, y + 13, group, "start", "label"))
        y += _TITLE
        for bar in bars:
            parts.append(_bar(chart, group, bar, across, y))
            label = f"{bar.length:.2f}"
            parts.append(text(across(bar.length) + 5, y + 10.5, label, "start", "small"))
            y += _BAR + _GAP
        y += 8
    grid = []
    for value, label in axis.marks():
        at = across(value)
        grid.append(el("line", x1=at, x2=at, y1=4, y2=y, class_="grid"))
        grid.append(text(at, y + 15, label))
    name = text((_LEFT + WIDTH - _RIGHT) / 2, y + 33, axis.label, class_="label")
    return svg(*grid, *parts, name, height=round(y + 42), alt=alt, class_="bars")


def _bar(chart: BarChart, group: str, bar: Bar, across: Scale, y: float) -> Html:
    start, middle, end = across(0.0), across(bar.pale), across(bar.length)
    pale, full = (part.split(" (")[0] for part in chart.parts)
    tip = f"{bar.style.label}, {group}: {pale} {bar.pale:.3f}, {full} {bar.full:.3f}"
    box = {"y": y, "height": _BAR}
    parts = [
        el("title", tip),
        el("rect", x=start, width=round(max(middle - start, 0), 1), **box, class_="pale"),
        el("rect", x=middle, width=round(max(end - middle, 0), 1), **box),
    ]
    if bar.mark is not None and math.isfinite(bar.mark):
        at = across(bar.mark)
        parts.append(el("line", x1=at, x2=at, y1=y - 1, y2=y + _BAR + 1, class_="reference"))
    return el("g", *parts, class_=f"bar s{bar.style.colour}")
