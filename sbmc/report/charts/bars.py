"""Bar charts: for each group a bar of every series, and each bar in two parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sbmc.report.charts.axis import Axis, nice_range
from sbmc.report.charts.style import KeyEntry, Style
from sbmc.report.tables import Cell, Table, number


@dataclass(frozen=True)
class Bar:
    """A bar of two parts, one after the other.

    Attributes:
        style: the series.
        pale: length of the first part.
        full: length of the second part.
        mark: a value to compare the length with, if there is one.
    """

    style: Style
    pale: float
    full: float
    mark: float | None = None

    @property
    def length(self) -> float:
        """The length of both parts together."""
        return self.pale + self.full


@dataclass(frozen=True)
class BarChart:
    """Groups of bars.

    Attributes:
        groups: name of each group, and its bars.
        label: what lengths measure.
        parts: what the pale and the full part of a bar are.
        mark: what a mark is.
    """

    groups: Sequence[tuple[str, Sequence[Bar]]]
    label: str
    parts: tuple[str, str]
    mark: str = ""

    @property
    def bars(self) -> list[Bar]:
        """The bars of all groups."""
        return [bar for _, bars in self.groups for bar in bars]

    @property
    def styles(self) -> list[Style]:
        """The series, in order."""
        return list(dict.fromkeys(bar.style for bar in self.bars))

    @property
    def is_marked(self) -> bool:
        """Whether a bar has a mark."""
        return any(bar.mark is not None for bar in self.bars)

    @property
    def axis(self) -> Axis:
        """From 0 to the end of the longest bar."""
        ends = [max(bar.length, bar.mark or 0.0) for bar in self.bars]
        return Axis(self.label, 0.0, nice_range(ends, zero=True)[1])

    def key(self) -> list[KeyEntry]:
        """The legend: the series, then the two parts, then the mark."""
        entries = [KeyEntry(style.label, "bar", style) for style in self.styles]
        entries.append(KeyEntry(f"pale: {self.parts[0]}", "pale"))
        entries.append(KeyEntry(f"full: {self.parts[1]}", "full"))
        return entries + ([KeyEntry(f"line: {self.mark}", "mark")] if self.is_marked else [])

    def table(self) -> Table:
        """A row for each bar."""
        rows = []
        for group, bars in self.groups:
            for bar in bars:
                cells = [number(each) for each in (bar.pale, bar.full, bar.length)]
                marks = [number(bar.mark)] if self.is_marked else []
                rows.append([Cell(group, group), bar.style.label, *cells, *marks])
        names = [part.split(" (")[0] for part in self.parts]
        marks_heading = (self.mark,) if self.is_marked else ()
        return Table(("Group", "Setting", *names, "total", *marks_heading), rows)
