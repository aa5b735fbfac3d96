"""How the series of a chart are told apart: by colour, by stroke and by marker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

# Each stroke is a list of lengths, drawn and left out in turn, as SVG has it; None is a solid line.
STROKES = (None, "8 3", "3 2", "11 3 3 3", "15 4", "6 3 1.5 3", "1 4", "6 2 6 6")
# The style sheet has so many colours, and there are as many strokes and markers.
COLOURS = len(STROKES)
# Curves that belong to the axis on the right have this stroke, whatever their series.
RIGHT_STROKE = "3 3"


@dataclass(frozen=True)
class Style:
    """What a series is called and what it looks like.

    Attributes:
        label: its name in the legend.
        colour: number of its colour, from 0 to `COLOURS` - 1.
        stroke: index into `STROKES`.
        marker: number of its marker, from 0 to `COLOURS` - 1.
    """

    label: str
    colour: int
    stroke: int
    marker: int

    @property
    def dashes(self) -> str | None:
        """The pattern of its stroke; None for a solid line."""
        return STROKES[self.stroke]


def series_style(number: int, label: str) -> Style:
    """The style of the series with a given number: no two of the first eight share anything.

    Examples:
        >>> series_style(9, "MAP")
        Style(label='MAP', colour=1, stroke=1, marker=1)
    """
    index = number % COLOURS
    return Style(label, index, index, index)


def series_styles(labels: Sequence[str]) -> list[Style]:
    """A style for each label, in order."""
    return [series_style(number, label) for number, label in enumerate(labels)]


class KeyEntry(NamedTuple):
    """An entry of a legend.

    Attributes:
        label: the text.
        sample: what stands beside it. `"series"` is a line and `"bar"` a bar in the style of a
            series; `"guide"`, `"axis"` and `"mark"` are lines of no series; `"pale"` and `"full"`
            are the two parts of a bar.
        style: the series, if the sample is of one.
        dashes: the stroke of a line of no series.
        note: a value to print after the label.
        marked: whether the series has markers.
    """

    label: str
    sample: Literal["series", "bar", "guide", "axis", "mark", "pale", "full"]
    style: Style | None = None
    dashes: str | None = None
    note: str = ""
    marked: bool = False
