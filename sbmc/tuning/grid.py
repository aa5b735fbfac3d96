"""The grids of v and s, and how a grid is extended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sbmc.checks import is_number, require

# Half decades around what the paper uses, which is 1/40 to 1.
V_GRID = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
# The MAP, the range in which the paper finds s not to matter, and the full posterior.
S_GRID = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
_ROUND = (1.0, 2.0, 3.0, 5.0, 10.0)


def check_grid(name: str, values: Any, rule: str, low: float, high: float) -> tuple[float, ...]:
    """Read a grid: numbers in ascending order, each once.

    Args:
        name: the argument.
        values: a number or several.
        rule: what each value must be, for the message.
        low: at least this.
        high: at most this.

    Returns:
        The values.

    Raises:
        BadInput: there is no value, or one breaks the rule.

    Examples:
        >>> check_grid("s", [0.3, 0.1, 0.1], "in [0, 1]", 0, 1)
        (0.1, 0.3)
    """
    several = list(values) if isinstance(values, Sequence) else [values]
    require(bool(several) and not isinstance(values, str), name, "at least one number", values)
    for value in several:
        good = is_number(value) and math.isfinite(value) and low <= value <= high
        require(good, name, rule, value)
    return tuple(sorted({float(value) for value in several}))


def v_grid(values: Any = None) -> tuple[float, ...]:
    """The values of v, `V_GRID` if none are given."""
    tiny = math.ulp(0.0)
    return check_grid(
        "v", V_GRID if values is None else values, "positive and finite", tiny, math.inf
    )


def s_grid(values: Any = None) -> tuple[float, ...]:
    """The values of s, `S_GRID` if none are given."""
    return check_grid("s", S_GRID if values is None else values, "in [0, 1]", 0.0, 1.0)


def beyond(grid: Sequence[float], best: float) -> float | None:
    """The next value to try where the best one lies at the edge of its grid.

    The grid is extended by its own mean ratio, rounded to 1, 2, 3 or 5 times a power of ten.

    Args:
        grid: in ascending order.
        best: one of its values.

    Returns:
        A value outside the grid; None if the best one is inside, or alone.

    Examples:
        >>> beyond((0.1, 0.3, 1.0), best=1.0), beyond((0.1, 0.3, 1.0), best=0.3)
        (3.0, None)
    """
    if len(grid) < 2 or best not in (grid[0], grid[-1]):
        return None
    ratio = (grid[-1] / grid[0]) ** (1 / (len(grid) - 1))
    up = best == grid[-1]
    exact = best * ratio if up else best / ratio
    rounded = _rounded(exact)
    further = rounded > best if up else rounded < best
    return rounded if further else exact


def _rounded(value: float) -> float:
    power = math.floor(math.log10(value))
    mantissa = value / 10.0**power
    nearest = min(_ROUND, key=lambda each: abs(math.log(mantissa / each)))
    # Through text, so that 3 times 10^-2 is 0.03 and not 0.030000000000000002.
    return float(f"{nearest * 10.0**power:.1g}")
