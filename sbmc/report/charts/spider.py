"""The spider: a closed line for each series around as many axes as there are measures."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sbmc.report.charts.frame import WIDTH, svg, text
from sbmc.report.charts.looks import Look
from sbmc.report.markup import Html, el

_RADIUS, _HEIGHT = 108, 310


def spider_chart(
    series: Sequence[tuple[Look, Sequence[float]]], axes: Sequence[str], *, alt: str
) -> Html:
    """Draw the spider; outside is better.

    Args:
        series: look, and a value from 0 to 1 for each axis.
        axes: their names; a newline begins another line.
        alt: what the picture shows, in words.

    Returns:
        The picture.
    """
    middle, centre = WIDTH / 2, _HEIGHT / 2
    angles = [2 * math.pi * index / len(axes) for index in range(len(axes))]

    def place(angle: float, radius: float) -> tuple[float, float]:
        x, y = middle + radius * math.sin(angle), centre - radius * math.cos(angle)
        return round(x, 1), round(y, 1)

    parts: list[Html] = []
    for share in (0.25, 0.5, 0.75, 1.0):
        ring = " ".join("{},{}".format(*place(a, share * _RADIUS)) for a in angles)
        parts.append(el("polygon", points=ring, class_="ring"))
        parts.append(
            text(middle + 4, centre - share * _RADIUS + 12, f"{share:g}", "start", "small")
        )
    for angle, words in zip(angles, axes, strict=True):
        x, y = place(angle, _RADIUS)
        parts.append(el("line", x1=middle, y1=centre, x2=x, y2=y, class_="grid"))
        side = round(math.sin(angle), 3)
        anchor = "middle" if side == 0 else "start" if side > 0 else "end"
        x, y = place(angle, _RADIUS + 9)
        lines = words.split("\n")
        first = y + 4 - (len(lines) - 1) * 14 * (1 + math.cos(angle)) / 2
        parts += [text(x, round(first + 14 * i, 1), w, anchor) for i, w in enumerate(lines)]
    for look, values in series:
        corners = [place(a, v * _RADIUS) for a, v in zip(angles, values, strict=True)]
        points = " ".join(f"{x},{y}" for x, y in corners)
        outline = {"class_": f"line {look.colour}", "stroke_dasharray": look.dashes}
        parts.append(el("polygon", points=points, **outline))
        for (x, y), words, value in zip(corners, axes, values, strict=True):
            tip = f"{look.label}: {' '.join(words.split())} {value:.3f} of the best"
            parts.append(look.marker(x, y, 3, tip))
    return svg(*parts, width=WIDTH, height=_HEIGHT, alt=alt, class_="spider")
