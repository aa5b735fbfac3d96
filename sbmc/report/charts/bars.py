"""Level bars: a block for each group, in it a bar for each series, with the words above."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sbmc.report.charts.frame import WIDTH, Axis, Scale, svg, text
from sbmc.report.charts.looks import Look
from sbmc.report.markup import Html, el

_BAR, _GAP, _TITLE = 13, 4, 20
_LEFT, _RIGHT = 10, 50


@dataclass(frozen=True)
class Bar:
    """A bar of two parts, one after the other.

    Attributes:
        look: whose.
        pale: length of the first part.
        full: length of the second.
        words: for those who point at it.
        mark: where an upright line stands, if anywhere.
    """

    look: Look
    pale: float
    full: float
    words: str
    mark: float | None = None


def bar_chart(blocks: Sequence[tuple[str, Sequence[Bar]]], axis: Axis, *, alt: str) -> Html:
    """Draw blocks of bars.

    Args:
        blocks: title and bars of each.
        axis: of lengths, from 0.
        alt: what the picture shows, in words.

    Returns:
        The picture, as high as it needs to be.
    """
    across = Scale(0.0, axis.high, _LEFT, WIDTH - _RIGHT)
    y = 6.0
    parts: list[Html] = []
    for title, bars in blocks:
        parts.append(text(_LEFT, y + 13, title, "start", "label"))
        y += _TITLE
        for bar in bars:
            start, middle = across(0.0), across(bar.pale)
            end = across(bar.pale + bar.full)
            place = {"y": y, "height": _BAR}
            inner = [
                el("title", bar.words),
                el("rect", x=start, width=round(max(middle - start, 0), 1), **place, class_="pale"),
                el("rect", x=middle, width=round(max(end - middle, 0), 1), **place),
            ]
            if bar.mark is not None and math.isfinite(bar.mark):
                at = across(bar.mark)
                inner.append(el("line", x1=at, x2=at, y1=y - 1, y2=y + _BAR + 1, class_="told"))
            parts.append(el("g", *inner, class_=f"bar {bar.look.colour}"))
            total = bar.pale + bar.full
            parts.append(text(end + 5, y + 10.5, f"{total:.2f}", "start", "small"))
            y += _BAR + _GAP
        y += 8
    bottom = y
    grid = []
    for value, words in axis.marks():
        at = across(value)
        grid.append(el("line", x1=at, x2=at, y1=4, y2=bottom, class_="grid"))
        grid.append(text(at, bottom + 15, words))
    label = text((_LEFT + WIDTH - _RIGHT) / 2, bottom + 33, axis.label, class_="label")
    return svg(*grid, *parts, label, width=WIDTH, height=round(bottom + 42), alt=alt, class_="bars")
