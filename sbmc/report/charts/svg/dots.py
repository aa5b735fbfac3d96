"""Dot charts as SVG."""

from __future__ import annotations

import math

from sbmc.report.charts.dots import DotChart
from sbmc.report.charts.style import series_style
from sbmc.report.charts.svg.canvas import WIDTH, Scale, marker, svg, text
from sbmc.report.markup import Html, el

_LINE, _LEFT, _RIGHT = 40, 12, 16


def draw_dots(chart: DotChart, alt: str) -> Html:
    """Draw lines of dots; values that are not finite are left out."""
    axis = chart.axis
    across = Scale(axis.low, axis.high, _LEFT, WIDTH - _RIGHT, axis.log)
    height = 8 + _LINE * len(chart.rows)
    style = series_style(0, "")
    parts: list[Html] = []
    if chart.band:
        start, end = across(chart.band[0]), across(chart.band[1])
        box = {"x": start, "width": round(end - start, 1), "y": 4, "height": height - 4}
        parts.append(el("rect", **box, class_="band"))
    for value, label in axis.marks():
        at = across(value)
        parts.append(el("line", x1=at, x2=at, y1=4, y2=height, class_="grid"))
        parts.append(text(at, height + 15, label))
    for index, (name, dots) in enumerate(chart.rows):
        y = 8 + _LINE * index
        parts.append(text(_LEFT, y + 12, name, "start"))
        level = y + 25
        ends = {"x1": _LEFT, "x2": WIDTH - _RIGHT, "y1": level, "y2": level}
        parts.append(el("line", **ends, class_="grid"))
        for dot in dots:
            if math.isfinite(dot.value):
                tip = f"{name}, {dot.label}: {axis.label} {axis.text(dot.value)}"
                parts.append(marker(style, across(dot.value), level, 4.5, tip))
    parts.append(text(WIDTH / 2, height + 33, axis.label, class_="label"))
    return svg(*parts, height=height + 42, alt=alt, class_="dots")
