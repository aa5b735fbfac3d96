"""How series look: a colour, a stroke and a marker each, told apart in grey as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sbmc.report.markup import Html, el, join

_DASHES = (None, "8 3", "3 2", "11 3 3 3", "15 4", "6 3 1.5 3", "1 4", "6 2 6 6")
COLOURS = 8


@dataclass(frozen=True)
class Look:
    """What tells a series from the others.

    Attributes:
        number: of its colour, marker and stroke, from 0.
        label: its name.
    """

    number: int
    label: str

    @property
    def colour(self) -> str:
        """The class that gives the colour."""
        return f"s{self.number % COLOURS}"

    @property
    def dashes(self) -> str | None:
        """The stroke's pattern; None for a whole line."""
        return _DASHES[self.number % len(_DASHES)]

    def marker(self, x: float, y: float, size: float = 3.6, title: str | None = None) -> Html:
        """Its marker at a place, with words for those who point at it."""
        tip = el("title", title) if title else None
        shape = self.number % COLOURS
        classes = f"mark {self.colour}"
        if shape == 0:
            return el("circle", tip, cx=x, cy=y, r=size, class_=classes)
        if shape == 1:
            side = size * 0.9
            edge = round(2 * side, 1)
            corner = {"x": round(x - side, 1), "y": round(y - side, 1)}
            return el("rect", tip, **corner, width=edge, height=edge, class_=classes)
        corners = {
            2: ((0, -1.2), (1.15, 0.9), (-1.15, 0.9)),
            3: ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
            4: ((0, 1.2), (1.15, -0.9), (-1.15, -0.9)),
            5: ((-1.2, 0), (0.9, -1.15), (0.9, 1.15)),
            6: ((1.2, 0), (-0.9, -1.15), (-0.9, 1.15)),
            7: ((-1.1, -0.5), (0, -1.2), (1.1, -0.5), (0.7, 1), (-0.7, 1)),
        }[shape]
        places = " ".join(f"{x + size * dx:.1f},{y + size * dy:.1f}" for dx, dy in corners)
        return el("polygon", tip, points=places, class_=classes)


def make_looks(labels: Sequence[str]) -> list[Look]:
    """A look for each label, in order."""
    return [Look(number, label) for number, label in enumerate(labels)]


def legend(looks: Sequence[Look], more: Sequence[Html] = (), values: Sequence[str] = ()) -> Html:
    """The key to a figure, above it.

    Args:
        looks: the series.
        more: further entries.
        values: a number to stand behind each label.

    Returns:
        A list.
    """
    entries = []
    for index, look in enumerate(looks):
        line = el(
            "line",
            x1=1,
            x2=31,
            y1=8,
            y2=8,
            class_=f"line {look.colour}",
            stroke_dasharray=look.dashes,
        )
        swatch = el(
            "svg",
            line,
            look.marker(16, 8, 4),
            viewBox="0 0 32 16",
            class_="key",
            aria_hidden="true",
        )
        value = el("b", values[index]) if values else None
        entries.append(el("li", swatch, el("span", look.label, value and " ", value)))
    return el("ul", *entries, *more, class_="legend")


def key(class_: str, words: str) -> Html:
    """A further entry of a legend: a patch of a class, and words."""
    patch = el("rect", x=3, y=2, width=26, height=12, class_=class_)
    swatch = el("svg", patch, viewBox="0 0 32 16", class_="key", aria_hidden="true")
    return el("li", swatch, el("span", words))


def line_key(class_: str, words: str, dashes: str | None = None) -> Html:
    """A further entry of a legend: a line of a class, and words."""
    line = el("line", x1=1, x2=31, y1=8, y2=8, class_=class_, stroke_dasharray=dashes)
    swatch = el("svg", line, viewBox="0 0 32 16", class_="key", aria_hidden="true")
    return el("li", swatch, el("span", words))


def keys(entries: Sequence[Html]) -> Html:
    """A legend of such entries alone."""
    return el("ul", join(entries), class_="legend")
