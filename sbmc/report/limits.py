"""How much of the data a page shows, so that it never grows beyond `MOST_BYTES`."""

from __future__ import annotations

from dataclasses import dataclass, replace

# The promise: a page of any data is at most this large.
MOST_BYTES = 2_000_000
# Colours, dashes and markers that everyone can tell apart.
MOST_SERIES = 6
# So little still shows the shape of a curve and how islands differ: before tables are cut, figures
# are.
FEWEST = {"points": 26, "islands": 4}
FEWEST_SERIES = 3


@dataclass(frozen=True)
class Limits:
    """What is shown of each kind of thing; the page says what it leaves out.

    Attributes:
        experiments: with sections of their own.
        tables: of the paper, of one experiment.
        rows: of a table of settings.
        series: curves of a figure.
        groups: bars' groups, classes, axes.
        islands: shown one by one.
        points: of a curve.
        examples: pictures or texts in a row.
        keys: settings, versions and other names of a list.
    """

    experiments: int = 12
    tables: int = 40
    rows: int = 240
    series: int = MOST_SERIES
    groups: int = 24
    islands: int = 16
    points: int = 101
    examples: int = 8
    keys: int = 120

    def tighter(self) -> Limits:
        """Less of it: points and islands of figures, then their series, then half of everything.

        Tables are what a reader cannot get from a picture, so they are cut last.

        Examples:
            >>> once = Limits().tighter()
            >>> once.points, once.series, once.tighter().series, once.tighter().rows
            (26, 6, 3, 240)
            >>> once.tighter().tighter().rows, Limits(1, 1, 1, 1, 1, 1, 1, 1, 1).tighter().rows
            (120, 1)
        """
        fewer = {name: min(vars(self)[name], most) for name, most in FEWEST.items()}
        if replace(self, **fewer) != self:
            return replace(self, **fewer)
        if self.series > FEWEST_SERIES:
            return replace(self, series=FEWEST_SERIES)
        halves = {name: max(1, value // 2) for name, value in vars(self).items()}
        return Limits(**halves)
