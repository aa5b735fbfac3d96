"""Heat maps: numbers in cells that are darker the larger the number is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sbmc.report.charts.style import KeyEntry
from sbmc.report.tables import Table, number

# Shades of one hue, from light to dark: they can be read with any colour vision, and in grey.
LEVELS = 7


@dataclass(frozen=True)
class HeatMap:
    """Rows of cells.

    Attributes:
        rows: name of each row, and its cells: value and text.
        columns: a heading for each column.
        above: headings that span several columns, each with how many.
        low: the value of the lightest cell.
        high: the value of the darkest cell.
    """

    rows: Sequence[tuple[str, Sequence[tuple[float, str]]]]
    columns: Sequence[str]
    above: Sequence[tuple[str, int]] = ()
    low: float = 0.0
    high: float = 1.0

    def level(self, value: float) -> int:
        """The shade of a value, from 0 to `LEVELS` - 1; NaN has the lightest."""
        if not math.isfinite(value) or self.high <= self.low:
            return 0
        share = min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)
        return min(int(share * LEVELS), LEVELS - 1)

    def headings(self) -> list[str]:
        """The heading of each column, with the one above it."""
        above = [name for name, count in self.above for _ in range(count)]
        if not above:
            return list(self.columns)
        return [f"{name}: {column}" for name, column in zip(above, self.columns, strict=True)]

    def key(self) -> list[KeyEntry]:
        """No legend: each row has its name."""
        return []

    def table(self) -> Table:
        """A row for each row of the map."""
        rows = [[name, *(number(value) for value, _ in cells)] for name, cells in self.rows]
        return Table(("Setting", *self.headings()), rows)


def is_dark(level: int) -> bool:
    """Whether text on this shade has to be light."""
    return 2 * level >= LEVELS
