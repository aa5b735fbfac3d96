"""What all SVG charts are made of: scales, texts and markers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sbmc.report.charts.style import Style
from sbmc.report.markup import Html, el

# A picture of this width fills a phone; on wider screens two stand side by side.
WIDTH = 400
# The corners of markers 2 to 7, in units of their size; 0 is a circle and 1 a square.
_CORNERS = {
    2: ((0, -1.2), (1.15, 0.9), (-1.15, 0.9)),
    3: ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    4: ((0, 1.2), (1.15, -0.9), (-1.15, -0.9)),
    5: ((-1.2, 0), (0.9, -1.15), (0.9, 1.15)),
    6: ((1.2, 0), (-0.9, -1.15), (-0.9, 1.15)),
    7: ((-1.1, -0.5), (0, -1.2), (1.1, -0.5), (0.7, 1), (-0.7, 1)),
}


@dataclass(frozen=True)
class Scale:
    """A map from values to coordinates.

    Attributes:
        low: the value at `start`.
        high: the value at `end`.
        start: a coordinate.
        end: another.
        log: whether equal steps are equal ratios.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The coordinate of a value; values beyond the ends are put at the ends."""
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(max(value, 1e-300))
        share = 0.5 if high == low else (at - low) / (high - low)
        return round(self.start + min(max(share, 0.0), 1.0) * (self.end - self.start), 1)


def svg(*parts: object, height: float, alt: str, class_: str, **attributes: object) -> Html:
    """A picture of the usual width, with a text alternative."""
    box = f"0 0 {WIDTH} {height}"
    named = {"role": "img", "aria_label": alt, "class_": class_}
    return el("svg", *parts, viewBox=box, **named, **attributes)


def text(
    x: float, y: float, content: object, anchor: str = "middle", class_: str | None = None
) -> Html:
    """A text in a picture."""
    return el("text", content, x=x, y=y, text_anchor=anchor, class_=class_)


def marker(style: Style, x: float, y: float, size: float = 3.6, tip: str | None = None) -> Html:
    """The marker of a series, with a text for readers who point at it."""
    title = el("title", tip) if tip else None
    classes = f"mark s{style.colour}"
    if style.marker == 0:
        return el("circle", title, cx=x, cy=y, r=size, class_=classes)
    if style.marker == 1:
        side = size * 0.9
        edge = round(2 * side, 1)
        corner = {"x": round(x - side, 1), "y": round(y - side, 1)}
        return el("rect", title, **corner, width=edge, height=edge, class_=classes)
    corners = _CORNERS[style.marker]
    points = " ".join(f"{x + size * dx:.1f},{y + size * dy:.1f}" for dx, dy in corners)
    return el("polygon", title, points=points, class_=classes)
