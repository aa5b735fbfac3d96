"""Heat maps as SVG; the name of a row stands above its cells, so that they fit a phone."""

from __future__ import annotations

from sbmc.report.charts.heat_map import HeatMap, is_dark
from sbmc.report.charts.svg.canvas import WIDTH, svg, text
from sbmc.report.markup import Html, el

_EDGE, _ROW = 4, 52


def draw_heat_map(chart: HeatMap, alt: str) -> Html:
    """Draw a heat map."""
    width = (WIDTH - 2 * _EDGE) / len(chart.columns)
    top = 40 if chart.above else 22
    parts: list[Html] = []
    at = float(_EDGE)
    for name, count in chart.above:
        parts.append(text(at + width * count / 2, 14, name, class_="label"))
        at += width * count
    for index, heading in enumerate(chart.columns):
        middle = round(_EDGE + width * (index + 0.5), 1)
        parts.append(text(middle, top - 8, heading, class_="small"))
    for row, (name, cells) in enumerate(chart.rows):
        y = top + _ROW * row
        parts.append(text(_EDGE + 2, y + 13, name, "start"))
        for index, (value, label) in enumerate(cells):
            left, level = round(_EDGE + width * index + 1, 1), chart.level(value)
            box = {"x": left, "y": y + 18, "width": round(width - 2, 1), "height": 26}
            middle = round(_EDGE + width * (index + 0.5), 1)
            parts.append(el("rect", **box, class_=f"h{level}"))
            classes = "cell dark" if is_dark(level) else "cell"
            parts.append(text(middle, y + 36, label, class_=classes))
    return svg(*parts, height=top + _ROW * len(chart.rows) + 2, alt=alt, class_="heat")
