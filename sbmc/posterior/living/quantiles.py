"""A sample kept as a few of its order statistics, and the test whether another one is like it.

Of n values some order statistics q_j are kept, with the number of values up to each. For m new
values the statistic is the distance of Kolmogorov and Smirnov at these points,

    D = max_j |F_new(q_j) − F_old(q_j)|.

Its p-value is that of the maximum over all points, which is at least as large. If both samples come
from one continuous distribution, all orders in which the n + m values can lie are equally likely,
and those with a distance below D are counted exactly, whatever the distribution is. Where values
are tied or quantiles are few, the test rejects less often than its level says, never more often.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from sbmc.checks import require

# Order statistics that are kept, and digits of each.
KEPT, DIGITS = 33, 9
# Beyond so many pairs of values the limit for large samples is exact enough.
MOST_PAIRS = 20_000_000


@dataclass(frozen=True)
class Quantiles:
    """Order statistics of a sample.

    Attributes:
        size: n, how many values there were.
        values: some of them, ascending and different, `(kept,)`.
        counts: how many of the n are at most as large as each, `(kept,)`.
    """

    size: int
    values: tuple[float, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, sample: np.ndarray) -> Quantiles:
        """Keep some order statistics of a sample `(n,)` of finite numbers.

        Examples:
            >>> kept = Quantiles.of(np.array([0.0, 0.0, 1.0]))
            >>> kept.values, kept.counts
            ((0.0, 1.0), (2, 3))
        """
        ordered = np.sort(np.asarray(sample, dtype=float))
        some = ordered[_ranks(len(ordered)) - 1]
        # Counted after rounding: then it does not matter whether a value was rounded up or down.
        values = np.unique([float(f"{value:.{DIGITS}g}") for value in some])
        counts = np.searchsorted(ordered, values, side="right")
        return cls(len(ordered), tuple(values.tolist()), tuple(counts.tolist()))

    @property
    def median(self) -> float:
        """The kept value nearest to the middle."""
        middle = int(np.abs(np.asarray(self.counts) - self.size / 2).argmin())
        return self.values[middle]

    def compare(self, sample: np.ndarray) -> tuple[float, float]:
        """How far another sample is from this one.

        Args:
            sample: `(m,)` finite numbers.

        Returns:
            D with a sign, positive if the new values tend to be larger; and the p-value of |D|.

        Examples:
            >>> kept = Quantiles.of(np.arange(100.0))
            >>> distance, p_value = kept.compare(np.arange(100.0) + 50)
            >>> round(distance, 2), p_value < 1e-4
            (0.5, True)
        """
        new = np.sort(np.asarray(sample, dtype=float))
        below = np.searchsorted(new, self.values, side="right")
        # In units of 1 / nm, distances are integers, and none of them is rounded.
        gaps = np.asarray(self.counts) * len(new) - below * self.size
        gap = int(gaps[np.abs(gaps).argmax()])
        return gap / (self.size * len(new)), p_value(abs(gap), self.size, len(new))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"size": self.size, "values": list(self.values), "counts": list(self.counts)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Quantiles:
        """What `to_dict` gave.

        Raises:
            BadInput: it is something else.
        """
        good = isinstance(content, Mapping) and {"size", "values", "counts"} <= set(content)
        require(good, "content", "quantiles: size, values and counts", content)
        size, counts = int(content["size"]), [int(each) for each in content["counts"]]
        values = [float(each) for each in content["values"]]
        good = 0 < len(values) == len(counts) and sorted(set(values)) == values
        good = good and all(map(math.isfinite, values)) and sorted(counts) == counts
        good = good and counts[0] >= 0 and counts[-1] <= size
        require(good, "content", "quantiles that ascend, with counts up to their size", content)
        return cls(size, tuple(values), tuple(counts))


@lru_cache(maxsize=4096)
def p_value(gap: int, old: int, new: int) -> float:
    """The probability that two samples of one continuous distribution are at least so far apart.

    A path goes one step right for each old value and one step up for each new one, in the order of
    the values. Paths that stay within the distance are counted column by column.

    Args:
        gap: n·m·D, an integer from 0 on.
        old: n, how many values one sample has.
        new: m, how many the other has.

    Returns:
        From 0 to 1.

    Examples:
        >>> round(p_value(4, 2, 2), 6)  # all of one sample below all of the other: 2 orders of 6
        0.333333
    """
    few, many = sorted((old, new))
    if gap == 0:
        return 1.0
    if few * many > MOST_PAIRS:
        from scipy.special import kolmogorov

        return float(kolmogorov(gap / math.sqrt(float(old) * new * (old + new))))
    log_scale, first, paths = 0.0, 0, np.ones(1)
    for i in range(few + 1):
        # j with |i·many − j·few| < gap
        start = max(0, (i * many - gap) // few + 1)
        stop = min(many, (i * many + gap - 1) // few) + 1
        column = np.zeros(stop - start)
        if i == 0:
            column[0] = 1.0
        else:
            kept = paths[start - first :]
            column[: len(kept)] = kept
        paths, first = column.cumsum(), start
        scale = float(paths[-1]) if len(paths) else 0.0
        if scale == 0:  # every path is somewhere so far from the diagonal
            return 1.0
        paths, log_scale = paths / scale, log_scale + math.log(scale)
    all_paths = math.lgamma(few + many + 1) - math.lgamma(few + 1) - math.lgamma(many + 1)
    return min(1.0, max(0.0, -math.expm1(log_scale - all_paths)))


def _ranks(size: int) -> np.ndarray:
    """The ranks that are kept, from 1 to `size`."""
    return np.unique(np.linspace(1, size, KEPT).round().astype(int))
