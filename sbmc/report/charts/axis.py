"""Axes: where they begin and end, and the values that are marked on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sbmc.report.numbers import short


def ticks(low: float, high: float, count: int = 5, log: bool = False) -> list[float]:
    """Round values that divide an interval.

    Args:
        low: its lower end.
        high: its upper end.
        count: about how many.
        log: for a logarithmic axis.

    Returns:
        The values, all inside.

    Examples:
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
        at: the values to mark; chosen if not given.
        percent: whether values are shares, to be shown in percent.
        names: what the values in `at` stand for, if they are categories.
    """

    label: str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    at: tuple[float, ...] | None = None
    percent: bool = False
    names: tuple[str, ...] | None = None

    def marks(self, count: int = 5) -> list[tuple[float, str]]:
        """The marked values that lie on the axis, each with its text."""
        if self.at is None:
            values = ticks(self.low, self.high, count, self.log)
        else:
            values = [value for value in self.at if self.low <= value <= self.high]
        return [(value, self.text(value)) for value in values]

    def text(self, value: float) -> str:
        """A value as the axis shows it."""
        if self.names and self.at and value in self.at:
            return self.names[self.at.index(value)]
        return f"{short(100 * value)} %" if self.percent else short(value)
