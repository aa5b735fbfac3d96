"""Line charts as SVG."""

from __future__ import annotations

import math

from sbmc.report.charts.axis import Axis
from sbmc.report.charts.lines import Curve, LineChart
from sbmc.report.charts.style import RIGHT_STROKE, Style
from sbmc.report.charts.svg.canvas import WIDTH, Scale, marker, svg, text
from sbmc.report.markup import Html, el, join
from sbmc.report.numbers import short

_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 12, 30, 44
# The margin of a second axis.
_SECOND = 46


def draw_lines(chart: LineChart, alt: str) -> Html:
    """Draw curves.

    Where all curves have their points at the same x, the picture carries the scale of its x axis,
    so that the page's script can show the values at the pointer from the figure's table.
    """
    edge = WIDTH - (_SECOND if chart.right else _RIGHT)
    bottom = chart.height - _BOTTOM
    across = Scale(chart.x.low, chart.x.high, _LEFT, edge, chart.x.log)
    up = Scale(chart.y.low, chart.y.high, bottom, _TOP, chart.y.log)
    parts = [_frame(chart.x, chart.y, across, up)]
    other = up
    if chart.right:
        other = Scale(chart.right.low, chart.right.high, bottom, _TOP, chart.right.log)
        parts.append(_right_axis(chart.right, other, edge))
    for guide in chart.guides:
        (x1, y1), (x2, y2) = guide.start, guide.end
        ends = {"x1": across(x1), "y1": up(y1), "x2": across(x2), "y2": up(y2)}
        class_ = f"error s{guide.style.colour}" if guide.style else "guide"
        parts.append(el("line", **ends, class_=class_, stroke_dasharray=guide.dashes))
    for curve in chart.curves:
        parts.append(_curve(chart, curve, across, other if curve.right else up))
    for point in chart.points:
        tip = _tip(chart, point.style, chart.y, point.x, point.y)
        parts.append(marker(point.style, across(point.x), up(point.y), 5, tip))
    hover: dict[str, object] = {}
    if chart.is_shared:
        low, high = chart.x.low, chart.x.high
        hover = {
            "data_hover": f"{low!r} {high!r} {across.start} {across.end} {int(chart.x.log)}",
            "data_band": f"{up.end} {up.start}",
        }
    return svg(*parts, height=chart.height, alt=alt, class_="plot", **hover)


def _curve(chart: LineChart, curve: Curve, across: Scale, up: Scale) -> Html:
    style = curve.style
    points = [
        (index, at, value)
        for index, (at, value) in enumerate(zip(curve.x, curve.y, strict=True))
        if math.isfinite(at) and math.isfinite(value)
    ]
    parts = []
    if curve.joined and points:
        path, last = "", -2
        for index, at, value in points:
            path += f"{'L' if index == last + 1 else 'M'}{across(at):g} {up(value):g}"
            last = index
        classes = f"line s{style.colour}" + (" thin" if curve.right else "")
        dashes = RIGHT_STROKE if curve.right else style.dashes
        parts.append(el("path", d=path, class_=classes, stroke_dasharray=dashes))
    for index, at, value in points if curve.marked else ():
        error = curve.errors[index] if curve.errors else 0.0
        if error and math.isfinite(error):
            ends = {"y1": up(value - error), "y2": up(value + error)}
            x = across(at)
            parts.append(el("line", x1=x, x2=x, **ends, class_=f"error s{style.colour}"))
        tip = _tip(chart, style, chart.axis_of(curve), at, value, error)
        parts.append(marker(style, across(at), up(value), tip=tip))
    return join(parts)


def _tip(
    chart: LineChart, style: Style, axis: Axis, at: float, value: float, error: float = 0.0
) -> str:
    """The text at a point, such as `MAP: 0.34 ± 0.01 at 0.5`."""
    name = f"{style.label}, {axis.label}" if chart.right else style.label
    spread = f" ± {short(100 * error if axis.percent else error)}" if error else ""
    return f"{name}: {axis.text(value)}{spread} at {chart.x.text(at)}"


def _frame(x: Axis, y: Axis, across: Scale, up: Scale) -> Html:
    """Grid lines, ticks and the names of both axes; that of the y axis stands above it."""
    left, right, bottom, top = across.start, across.end, up.start, up.end
    parts: list[Html] = []
    for value, label in y.marks():
        level = up(value)
        parts.append(el("line", x1=left, x2=right, y1=level, y2=level, class_="grid"))
        parts.append(text(left - 6, level + 4, label, "end"))
    for value, label in x.marks():
        at = across(value)
        parts.append(el("line", x1=at, x2=at, y1=bottom, y2=bottom + 4, class_="axis"))
        parts.append(text(at, bottom + 17, label))
    parts.append(el("line", x1=left, x2=right, y1=bottom, y2=bottom, class_="axis"))
    parts.append(text((left + right) / 2, bottom + 36, x.label, class_="label"))
    parts.append(text(4, top - 14, y.label, "start", "label"))
    return join(parts)


def _right_axis(axis: Axis, up: Scale, edge: float) -> Html:
    parts = [el("line", x1=edge, x2=edge, y1=up.start, y2=up.end, class_="axis")]
    for value, label in axis.marks():
        level = up(value)
        parts.append(el("line", x1=edge, x2=edge + 4, y1=level, y2=level, class_="axis"))
        parts.append(text(edge + 7, level + 4, label, "start"))
    return join([*parts, text(WIDTH - 4, up.end - 14, axis.label, "end", "label")])
