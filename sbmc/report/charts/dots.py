"""Dots along a line for each name: how much islands differ, at a glance."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sbmc.report.charts.frame import WIDTH, Axis, Scale, svg, text
from sbmc.report.charts.looks import Look
from sbmc.report.markup import Html, el

_LINE, _LEFT, _RIGHT = 40, 12, 16


def dot_chart(
    rows: Sequence[tuple[str, Sequence[tuple[float, str]]]],
    axis: Axis,
    *,
    alt: str,
    band: tuple[float, float] | None = None,
) -> Html:
    """Draw dots.

    Args:
        rows: name, and the dots of it: value and words.
        axis: below.
        alt: what the picture shows, in words.
        band: shaded from here to there: where values are wanted.

    Returns:
        The picture.
    """
    across = Scale(axis.low, axis.high, _LEFT, WIDTH - _RIGHT, axis.log)
    height = 8 + _LINE * len(rows)
    look = Look(0, "")
    parts: list[Html] = []
    if band:
        start, end = across(band[0]), across(band[1])
        place = {"x": start, "width": round(end - start, 1), "y": 4, "height": height - 4}
        parts.append(el("rect", **place, class_="band"))
    for value, words in axis.marks():
        at = across(value)
        parts.append(el("line", x1=at, x2=at, y1=4, y2=height, class_="grid"))
        parts.append(text(at, height + 15, words))
    for index, (name, dots) in enumerate(rows):
        y = 8 + _LINE * index
        parts.append(text(_LEFT, y + 12, name, "start"))
        level = y + 25
        ends = {"x1": _LEFT, "x2": WIDTH - _RIGHT, "y1": level, "y2": level}
        parts.append(el("line", **ends, class_="grid"))
        for value, words in dots:
            if math.isfinite(value):
                parts.append(look.marker(across(value), level, 4.5, words))
    parts.append(text(WIDTH / 2, height + 33, axis.label, class_="label"))
    return svg(*parts, width=WIDTH, height=height + 42, alt=alt, class_="dots")
