"""Curves over a common axis, or each with its own points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sbmc.report.charts.frame import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    Scale,
    frame,
    svg,
)
from sbmc.report.charts.looks import Look
from sbmc.report.markup import Html, el, join
from sbmc.report.numbers import short


@dataclass(frozen=True)
class Curve:
    """A series.

    Attributes:
        look: colour, stroke and marker.
        x: places, in order.
        y: values; NaN leaves a gap.
        errors: half lengths of error bars, if there are any.
        marked: whether every point has a marker, which tells its values.
        right: whether it belongs to the axis on the right.
    """

    look: Look
    x: Sequence[float]
    y: Sequence[float]
    errors: Sequence[float] | None = None
    marked: bool = False
    right: bool = False


@dataclass(frozen=True)
class Guide:
    """A thin line to compare with.

    Attributes:
        start: `(x, y)`.
        end: `(x, y)`.
        dashes: its stroke.
    """

    start: tuple[float, float]
    end: tuple[float, float]
    dashes: str = "2 3"


def line_chart(
    curves: Sequence[Curve],
    x: Axis,
    y: Axis,
    *,
    alt: str,
    guides: Sequence[Guide] = (),
    marks: Sequence[tuple[Look, float, float, str]] = (),
    right: Axis | None = None,
    shared: bool = True,
    height: int = HEIGHT,
) -> Html:
    """Draw curves.

    Args:
        curves: the series.
        x: the axis below.
        y: the axis on the left.
        alt: what the picture shows, in words.
        guides: lines to compare with.
        marks: single points: look, x, y, words.
        right: an axis on the right, for curves that say so.
        shared: whether all curves have their points at the same places, as the figure's table has
            them, so that the script can read off values where someone points.
        height: of the picture.

    Returns:
        The picture.
    """
    edge = WIDTH - (46 if right else RIGHT)
    across = Scale(x.low, x.high, LEFT, edge, x.log)
    up = Scale(y.low, y.high, height - BOTTOM, TOP, y.log)
    other = Scale(right.low, right.high, height - BOTTOM, TOP, right.log) if right else up
    parts = [frame(x, y, across, up)]
    if right:
        parts.append(_right_axis(right, other, edge))
    for guide in guides:
        (x1, y1), (x2, y2) = guide.start, guide.end
        ends = {"x1": across(x1), "y1": up(y1), "x2": across(x2), "y2": up(y2)}
        parts.append(el("line", **ends, class_="guide", stroke_dasharray=guide.dashes))
    for curve in curves:
        parts.append(_curve(curve, across, other if curve.right else up, x, right or y))
    for look, at, value, words in marks:
        parts.append(look.marker(across(at), up(value), 5, words))
    hover: dict[str, object] = {}
    if shared and curves:
        hover = {
            "data_hover": f"{x.low!r} {x.high!r} {across.start} {across.end} {int(x.log)}",
            "data_band": f"{up.end} {up.start}",
        }
    return svg(*parts, width=WIDTH, height=height, alt=alt, class_="plot", **hover)


def _curve(curve: Curve, across: Scale, up: Scale, x: Axis, y: Axis) -> Html:
    look = curve.look
    pieces: list[list[str]] = [[]]
    for at, value in zip(curve.x, curve.y, strict=True):
        if math.isfinite(at) and math.isfinite(value):
            pieces[-1].append(f"{across(at):g} {up(value):g}")
        elif pieces[-1]:
            pieces.append([])
    path = "".join("M" + "L".join(piece) for piece in pieces if piece)
    parts = []
    if path:
        classes = f"line {look.colour}" + (" thin" if curve.right else "")
        dashes = "3 3" if curve.right else look.dashes
        parts.append(el("path", d=path, class_=classes, stroke_dasharray=dashes))
    for index, (at, value) in enumerate(zip(curve.x, curve.y, strict=True)):
        if not curve.marked or not (math.isfinite(at) and math.isfinite(value)):
            continue
        error = curve.errors[index] if curve.errors else 0.0
        if error and math.isfinite(error):
            ends = {"y1": up(value - error), "y2": up(value + error)}
            place = {"x1": across(at), "x2": across(at)}
            parts.append(el("line", **place, **ends, class_=f"error {look.colour}"))
        spread = f" ± {short(error)}" if error else ""
        words = f"{look.label}: {short(value)}{spread} at {short(at)}"
        parts.append(look.marker(across(at), up(value), title=words))
    return join(parts)


def _right_axis(axis: Axis, up: Scale, edge: float) -> Html:
    parts = [el("line", x1=edge, x2=edge, y1=up.start, y2=up.end, class_="axis")]
    for value, words in axis.marks():
        level = up(value)
        parts.append(el("line", x1=edge, x2=edge + 4, y1=level, y2=level, class_="axis"))
        parts.append(el("text", words, x=edge + 7, y=level + 4, text_anchor="start"))
    label = {"x": WIDTH - 4, "y": up.end - 14, "text_anchor": "end", "class_": "label"}
    return join([*parts, el("text", axis.label, **label)])


def spread_evenly(count: int, most: int) -> list[int]:
    """Indices of at most so many of a number of points, the first and the last among them.

    Example:
        >>> spread_evenly(10, 4), spread_evenly(3, 4)
        ([0, 3, 6, 9], [0, 1, 2])
    """
    if count <= most:
        return list(range(count))
    if most < 2:
        return [0]
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})
