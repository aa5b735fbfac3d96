"""Scales, ticks, and the frame that curves are drawn in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sbmc.report.markup import Html, el, join
from sbmc.report.numbers import short

# Of a picture that fills a phone: wider screens get two side by side, or an enlarged one.
WIDTH, HEIGHT = 400, 285
LEFT, RIGHT, TOP, BOTTOM = 50, 12, 30, 44


@dataclass(frozen=True)
class Scale:
    """From values to places along an axis.

    Attributes:
        low: the value at `start`.
        high: the value at `end`.
        start: a place in the picture.
        end: another.
        log: whether equal steps are equal ratios.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value; values beyond the ends are put at the ends."""
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(max(value, 1e-300))
        share = 0.5 if high == low else (at - low) / (high - low)
        return round(self.start + min(max(share, 0.0), 1.0) * (self.end - self.start), 1)


def ticks(low: float, high: float, count: int = 5, log: bool = False) -> list[float]:
    """Round values that divide an interval.

    Args:
        low: its lower end.
        high: its upper end.
        count: about how many.
        log: for a logarithmic axis.

    Returns:
        The values, all inside.

    Example:
        >>> ticks(0, 1), ticks(0.21, 0.34, 4), ticks(50, 800, 4, log=True)
        ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.25, 0.3], [50.0, 100.0, 200.0, 500.0])
    """
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return [low]
    if log:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        fine = [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)]
        inside = [t for t in fine if low * (1 - 1e-9) <= t <= high * (1 + 1e-9)]
        step = max(1, math.ceil(len(inside) / (count + 2)))
        return inside[::step] or [low, high]
    rough = (high - low) / count
    unit = 10.0 ** math.floor(math.log10(rough))
    width = next(m * unit for m in (1, 2, 2.5, 5, 10) if m * unit >= rough * (1 - 1e-9))
    start = math.ceil(low / width - 1e-9)
    values = [i * width for i in range(start, start + 2 * count + 5)]
    return [float(f"{v:.10g}") for v in values if v <= high + width * 1e-9]


def nice_range(
    values: Sequence[float], *, zero: bool = False, log: bool = False
) -> tuple[float, float]:
    """Ends of an axis around values, with some room.

    Args:
        values: at least one that is finite, or else (0, 1) comes back.
        zero: whether the axis begins at 0.
        log: for a logarithmic axis.

    Returns:
        Lower and upper end, apart from each other.
    """
    known = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
    if not known:
        return (0.1, 1.0) if log else (0.0, 1.0)
    low, high = min(known), max(known)
    if log:
        return low / 1.12, high * 1.12
    if zero:
        low = min(0.0, low)
    room = 0.06 * (high - low) or abs(high) * 0.05 or 0.5
    return (low if zero and low == 0 else low - room), high + room


@dataclass(frozen=True)
class Axis:
    """An axis.

    Attributes:
        label: what it measures.
        low: its lower end.
        high: its upper end.
        log: whether it is logarithmic.
        at: where to put ticks; chosen if not given.
        percent: whether ticks are shares, to be shown in percent.
        names: of the places in `at`, where they stand for something else.
    """

    label: str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    at: tuple[float, ...] | None = None
    percent: bool = False
    names: tuple[str, ...] | None = None

    def marks(self, count: int = 5) -> list[tuple[float, str]]:
        """Its ticks with their words."""
        if self.at and self.names:
            return list(zip(self.at, self.names, strict=True))
        places = list(self.at) if self.at else ticks(self.low, self.high, count, self.log)
        return [(place, self.words(place)) for place in places]

    def words(self, value: float) -> str:
        """A value as the axis shows it."""
        return f"{short(100 * value)} %" if self.percent else short(value)


def svg(*parts: object, width: int, height: int, alt: str, **attributes: object) -> Html:
    """A picture that says in words what it shows."""
    return el(
        "svg",
        *parts,
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=alt,
        **attributes,
    )


def text(
    x: float, y: float, words: object, anchor: str = "middle", class_: str | None = None
) -> Html:
    """Words in a picture."""
    return el("text", words, x=x, y=y, text_anchor=anchor, class_=class_)


def frame(x: Axis, y: Axis, across: Scale, up: Scale) -> Html:
    """Grid lines, ticks and the words of both axes; the y axis is named above it, level."""
    left, right, bottom, top = across.start, across.end, up.start, up.end
    parts: list[Html] = []
    for value, words in y.marks():
        level = up(value)
        parts.append(el("line", x1=left, x2=right, y1=level, y2=level, class_="grid"))
        parts.append(text(left - 6, level + 4, words, "end"))
    for value, words in x.marks():
        place = across(value)
        parts.append(el("line", x1=place, x2=place, y1=bottom, y2=bottom + 4, class_="axis"))
        parts.append(text(place, bottom + 17, words))
    parts.append(el("line", x1=left, x2=right, y1=bottom, y2=bottom, class_="axis"))
    parts.append(text((left + right) / 2, bottom + 36, x.label, class_="label"))
    parts.append(text(4, top - 14, y.label, "start", "label"))
    return join(parts)
