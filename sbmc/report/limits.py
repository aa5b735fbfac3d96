"""How much of the data a page shows, so that it never grows beyond `MOST_BYTES`."""

from __future__ import annotations

from dataclasses import dataclass

# The promise: a page of any data is at most this large.
MOST_BYTES = 2_000_000
# Colours, dashes and markers that everyone can tell apart.
MOST_SERIES = 6


@dataclass(frozen=True)
class Limits:
    """What is shown of each kind of thing; the page says what it leaves out.

    Attributes:
        experiments: with sections of their own.
        rows: of a table of settings.
        series: curves of a figure.
        groups: bars' groups, classes, axes.
        islands: shown one by one.
        points: of a curve.
        examples: pictures or texts in a row.
        keys: settings, versions and other names of a list.
    """

    experiments: int = 12
    rows: int = 240
    series: int = MOST_SERIES
    groups: int = 24
    islands: int = 16
    points: int = 101
    examples: int = 8
    keys: int = 120

    def tighter(self) -> Limits:
        """Half of it, and of each kind one at least.

        Example:
            >>> Limits(rows=5, series=1).tighter().rows, Limits(series=1).tighter().series
            (2, 1)
        """
        halves = {name: max(1, value // 2) for name, value in vars(self).items()}
        return Limits(**halves)
