"""Line charts: curves over a common axis, lines to compare with, and single points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sbmc.report.charts.axis import Axis
from sbmc.report.charts.style import RIGHT_STROKE, KeyEntry, Style
from sbmc.report.tables import Table, number

# Height of the drawing in an SVG picture that is 400 units wide.
HEIGHT, TALL = 285, 330


@dataclass(frozen=True)
class Curve:
    """A curve of a series.

    Attributes:
        style: the series.
        x: where its points are, in order.
        y: their values; NaN leaves a gap.
        errors: half the length of the error bar of each point, if there are any.
        marked: whether every point has a marker.
        joined: whether the points are joined by a line.
        right: whether the values belong to the axis on the right.
        note: a value to print behind its label in the legend.
    """

    style: Style
    x: Sequence[float]
    y: Sequence[float]
    errors: Sequence[float] | None = None
    marked: bool = False
    joined: bool = True
    right: bool = False
    note: str = ""


@dataclass(frozen=True)
class Guide:
    """A thin line to compare with.

    Attributes:
        start: `(x, y)`.
        end: `(x, y)`.
        label: its entry in the legend; empty for none.
        dashes: its stroke.
        style: the series whose colour it has; grey if not given.
    """

    start: tuple[float, float]
    end: tuple[float, float]
    label: str = ""
    dashes: str = "2 3"
    style: Style | None = None


@dataclass(frozen=True)
class Point:
    """A single marker of a series at `(x, y)`."""

    style: Style
    x: float
    y: float


@dataclass(frozen=True)
class LineChart:
    """Curves.

    Attributes:
        curves: what is drawn.
        x: the axis below.
        y: the axis on the left.
        guides: lines to compare with.
        points: single markers.
        right: an axis on the right, for the curves that say so.
        height: of the drawing, `HEIGHT` or `TALL`.
    """

    curves: Sequence[Curve]
    x: Axis
    y: Axis
    guides: Sequence[Guide] = ()
    points: Sequence[Point] = ()
    right: Axis | None = None
    height: int = HEIGHT

    @property
    def is_shared(self) -> bool:
        """Whether all curves have their points at the same x, so that one row shows them all."""
        plain = not any(curve.marked for curve in self.curves)
        return plain and len({tuple(curve.x) for curve in self.curves}) == 1

    def axis_of(self, curve: Curve) -> Axis:
        """The axis that the values of a curve belong to."""
        return self.right if curve.right and self.right else self.y

    def key(self) -> list[KeyEntry]:
        """The legend: the series, then the axes if there are two, then the guides."""
        marked = {point.style for point in self.points}
        marked |= {curve.style for curve in self.curves if curve.marked}
        entries = [
            KeyEntry(style.label, "series", style, note=note, marked=style in marked)
            for style, note in {curve.style: curve.note for curve in self.curves}.items()
        ]
        if self.right:
            entries.append(KeyEntry(f"{self.y.label} (left)", "axis"))
            right = f"{self.right.label} (right)"
            entries.append(KeyEntry(right, "axis", dashes=RIGHT_STROKE))
        named = [guide for guide in self.guides if guide.label]
        return entries + [KeyEntry(each.label, "guide", dashes=each.dashes) for each in named]

    def table(self) -> Table:
        """What is drawn, as numbers: a row for each x if the curves share it, else for each point.

        Where a curve goes straight up, the row has its upper end.
        """
        if self.is_shared:
            rows = {
                at: [number(at), *(number(curve.y[index]) for curve in self.curves)]
                for index, at in enumerate(self.curves[0].x)
            }
            labels = [curve.style.label for curve in self.curves]
            return Table((self.x.label, *labels), list(rows.values()), curves=True)
        with_errors = any(curve.errors is not None for curve in self.curves)
        rows_of_points = []
        for curve in self.curves:
            errors = curve.errors or [0.0] * len(curve.x)
            for at, value, error in zip(curve.x, curve.y, errors, strict=True):
                cells = [number(value), *([number(error)] if with_errors else [])]
                rows_of_points.append([curve.style.label, number(at), *cells])
        headings = ("Setting", self.x.label, self.y.label, *(["±"] if with_errors else []))
        return Table(headings, rows_of_points)


def spread_evenly(count: int, most: int) -> list[int]:
    """Indices of at most `most` of `count` points, the first and the last among them.

    Examples:
        >>> spread_evenly(10, 4), spread_evenly(3, 4)
        ([0, 3, 6, 9], [0, 1, 2])
    """
    if count <= most:
        return list(range(count))
    if most < 2:
        return [0]
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})
