"""Spider charts: a closed line for each series around as many axes as there are measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sbmc.report.charts.style import KeyEntry, Style
from sbmc.report.tables import Table, number

# Where rings are drawn.
RINGS = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class SpiderChart:
    """Series of values from 0, in the middle, to 1, which is the best.

    Attributes:
        series: the style of each, and its value on every axis.
        axes: their names; a newline begins another line.
    """

    series: Sequence[tuple[Style, Sequence[float]]]
    axes: Sequence[str]

    @property
    def names(self) -> list[str]:
        """The names of the axes, on one line each."""
        return [" ".join(axis.split()) for axis in self.axes]

    def key(self) -> list[KeyEntry]:
        """The legend: the series."""
        return [KeyEntry(style.label, "series", style, marked=True) for style, _ in self.series]

    def table(self) -> Table:
        """A row for each series."""
        rows = [[style.label, *map(number, values)] for style, values in self.series]
        return Table(("Setting", *self.names), rows)
