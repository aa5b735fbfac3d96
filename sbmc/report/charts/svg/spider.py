"""Spider charts as SVG."""

from __future__ import annotations

import math

from sbmc.report.charts.spider import RINGS, SpiderChart
from sbmc.report.charts.svg.canvas import WIDTH, marker, svg, text
from sbmc.report.markup import Html, el

_RADIUS, _HEIGHT, _LINE = 108, 310, 14
_X, _Y = WIDTH / 2, _HEIGHT / 2


def draw_spider(chart: SpiderChart, alt: str) -> Html:
    """Draw a spider chart; the first axis points up, and the others follow clockwise."""
    angles = [2 * math.pi * index / len(chart.axes) for index in range(len(chart.axes))]
    parts: list[Html] = []
    for share in RINGS:
        ring = [_point(angle, share * _RADIUS) for angle in angles]
        parts.append(el("polygon", points=_path(ring), class_="ring"))
        parts.append(text(_X + 4, _Y - share * _RADIUS + 12, f"{share:g}", "start", "small"))
    for angle, name in zip(angles, chart.axes, strict=True):
        x, y = _point(angle, _RADIUS)
        parts.append(el("line", x1=_X, y1=_Y, x2=x, y2=y, class_="grid"))
        parts += _axis_name(angle, name.split("\n"))
    for style, values in chart.series:
        corners = [_point(a, v * _RADIUS) for a, v in zip(angles, values, strict=True)]
        outline = {"class_": f"line s{style.colour}", "stroke_dasharray": style.dashes}
        parts.append(el("polygon", points=_path(corners), **outline))
        for (x, y), name, value in zip(corners, chart.names, values, strict=True):
            parts.append(marker(style, x, y, 3, f"{style.label}: {name} {value:.3f} of the best"))
    return svg(*parts, height=_HEIGHT, alt=alt, class_="spider")


def _point(angle: float, radius: float) -> tuple[float, float]:
    return round(_X + radius * math.sin(angle), 1), round(_Y - radius * math.cos(angle), 1)


def _path(points: list[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in points)


def _axis_name(angle: float, lines: list[str]) -> list[Html]:
    """The name at the end of an axis: outside the rings, on the side that the axis points to."""
    side = round(math.sin(angle), 3)
    anchor = "middle" if side == 0 else "start" if side > 0 else "end"
    x, y = _point(angle, _RADIUS + 9)
    first = y + 4 - (len(lines) - 1) * _LINE * (1 + math.cos(angle)) / 2
    return [text(x, round(first + _LINE * i, 1), line, anchor) for i, line in enumerate(lines)]
