"""Dot charts: a line of dots for each name, such as a dot for each island of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sbmc.report.charts.axis import Axis
from sbmc.report.charts.style import KeyEntry
from sbmc.report.tables import Table, number


class Dot(NamedTuple):
    """A value, and what it is the value of."""

    label: str
    value: float


@dataclass(frozen=True)
class DotChart:
    """Lines of dots.

    Attributes:
        rows: name of each line, and its dots.
        axis: of the values.
        band: the interval that values should be in, to be shaded.
    """

    rows: Sequence[tuple[str, Sequence[Dot]]]
    axis: Axis
    band: tuple[float, float] | None = None

    def key(self) -> list[KeyEntry]:
        """No legend: each line has its name."""
        return []

    def table(self) -> Table:
        """A row for each dot."""
        rows = [[name, dot.label, number(dot.value)] for name, dots in self.rows for dot in dots]
        return Table(("Setting", "dot", self.axis.label), rows)
