"""Heat maps: numbers in cells, one hue from light to dark."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sbmc.report.charts.frame import WIDTH, svg, text
from sbmc.report.markup import Html, el

LEVELS = 7
_TOP = 40


def heat_map(
    rows: Sequence[tuple[str, Sequence[tuple[float, str]]]],
    columns: Sequence[str],
    *,
    alt: str,
    low: float = 0.0,
    high: float = 1.0,
    above: Sequence[tuple[str, int]] = (),
) -> Html:
    """Draw a heat map.

    Args:
        rows: name, and the cells of it: value and text.
        columns: their headings.
        alt: what the picture shows, in words.
        low: the value of the lightest cell.
        high: the value of the darkest.
        above: headings of several columns each, with their number.

    Returns:
        The picture; names of rows stand above their cells, so that it fits a phone.
    """
    span = WIDTH - 8
    width = span / len(columns)
    top = _TOP if above else _TOP - 18
    parts: list[Html] = []
    at = 4.0
    for words, number in above:
        parts.append(text(at + width * number / 2, 14, words, class_="label"))
        at += width * number
    for index, heading in enumerate(columns):
        parts.append(text(round(4 + width * (index + 0.5), 1), top - 8, heading, class_="small"))
    y = top
    for name, cells in rows:
        parts.append(text(6, y + 13, name, "start"))
        for index, (value, words) in enumerate(cells):
            place = {"x": round(4 + width * index + 1, 1), "y": y + 18}
            box = {"width": round(width - 2, 1), "height": 26}
            level = _level(value, low, high)
            middle = round(4 + width * (index + 0.5), 1)
            inside = "dark" if level * 2 >= LEVELS else None
            parts.append(el("rect", **place, **box, class_=f"h{level}"))
            parts.append(text(middle, y + 36, words, class_=f"cell {inside or ''}".strip()))
        y += 52
    return svg(*parts, width=WIDTH, height=y + 2, alt=alt, class_="heat")


def _level(value: float, low: float, high: float) -> int:
    if not math.isfinite(value) or high <= low:
        return 0
    share = min(max((value - low) / (high - low), 0.0), 1.0)
    return min(int(share * LEVELS), LEVELS - 1)
