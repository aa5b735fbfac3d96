"""Numbers as a reader wants them: few digits, percent for shares, a dash for none."""

from __future__ import annotations

import math

MISSING = "–"
# Metrics that are shares, shown in percent.
PERCENT = ("accuracy", "ece")


def is_share(metric: str) -> bool:
    """Whether a metric is shown in percent."""
    return metric.rpartition(".")[2] in PERCENT


def with_error(value: float | None, error: float | None, metric: str, digits: int) -> str:
    """A mean and its standard error.

    Args:
        value: the mean; None for a dash.
        error: None for one seed, which tells nothing of its own error.
        metric: its name in a record: shares are shown in percent.
        digits: after the point.

    Returns:
        The text.

    Examples:
        >>> with_error(0.9412, 0.0004, "accuracy", 1), with_error(None, None, "nll", 3)
        ('94.1±0.04', '–')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    unit = 100 if is_share(metric) else 1
    text = f"{value * unit:.{digits}f}"
    return text if error is None else f"{text}±{error * unit:.{max(digits, 2)}f}"


def short(value: float | None, digits: int = 3) -> str:
    """A number with so many significant digits, and no more zeros than it needs.

    Examples:
        >>> short(0.12345), short(1234.5), short(2.0), short(None), short(1e-9)
        ('0.123', '1,234', '2', '–', '1e-09')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def count(number: int, one: str, several: str | None = None) -> str:
    """A number and its noun.

    Examples:
        >>> count(1, "seed"), count(5, "seed"), count(2, "entry", "entries")
        ('1 seed', '5 seeds', '2 entries')
    """
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def percent(share: float | None, digits: int = 1) -> str:
    """A share in percent, as `94.1 %`; the space does not break."""
    if share is None or not math.isfinite(share):
        return MISSING
    return f"{100 * share:.{digits}f}\u00a0%"


def seconds(value: float | None) -> str:
    r"""A time: seconds up to two minutes, then minutes, then hours.

    Examples:
        >>> seconds(44.2), seconds(600), seconds(9000)
        ('44\xa0s', '10\xa0min', '2.5\xa0h')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    if value < 10:
        return f"{value:.1f}\u00a0s"
    if value < 120:
        return f"{value:.0f}\u00a0s"
    if value < 7200:
        return f"{value / 60:.0f}\u00a0min"
    return f"{value / 3600:.1f}\u00a0h"
