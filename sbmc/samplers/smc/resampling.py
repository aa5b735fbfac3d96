"""Resampling: choose ancestors in proportion to their weights.

All schemes have one signature, `(rng, weights, count) -> ancestors`, for one island, and expect
`count` times its weight in copies of each particle, so that averages keep their expectation. They
differ in how much noise they add: systematic the least as a rule, multinomial the most.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# (generator, normalised weights (N,) float64, count) -> ancestors (count,), in ascending order
Resampling = Callable[[torch.Generator, Tensor, int], Tensor]


def systematic(rng: torch.Generator, weights: Tensor, count: int) -> Tensor:
    """One uniform number shifts a comb of `count` evenly spaced points.

    A particle of weight w gets ⌊count·w⌋ or ⌈count·w⌉ copies.

    Args:
        rng: one uniform number is drawn.
        weights: `(N,)` float64, summing to 1.
        count: how many ancestors to draw.

    Returns:
        Their indices `(count,)`, in ascending order.

    Examples:
        >>> systematic(torch.Generator().manual_seed(0), torch.tensor([0.5, 0.0, 0.5]), 4)
        tensor([0, 0, 2, 2])
    """
    shift = torch.rand(1, generator=rng, dtype=torch.float64)
    return _inverse(weights, (torch.arange(count, dtype=torch.float64) + shift) / count)


def stratified(rng: torch.Generator, weights: Tensor, count: int) -> Tensor:
    """A uniform number in each of `count` strata of equal width; see `systematic`.

    A particle gets within two copies of count·w.
    """
    shifts = torch.rand(count, generator=rng, dtype=torch.float64)
    return _inverse(weights, (torch.arange(count, dtype=torch.float64) + shifts) / count)


def multinomial(rng: torch.Generator, weights: Tensor, count: int) -> Tensor:
    """`count` independent draws, as in the paper's algorithm to the letter; see `systematic`."""
    points = torch.rand(count, generator=rng, dtype=torch.float64)
    return _inverse(weights, points.sort().values)


def residual(rng: torch.Generator, weights: Tensor, count: int) -> Tensor:
    """⌊count·w⌋ copies for certain, the rest by independent draws; see `systematic`."""
    expected = weights.double() * count
    # The margin keeps a whole number whole: 10 × 0.3 is 2.9999999999999996.
    certain = (expected + 1e-9).floor().long()
    sure = torch.repeat_interleave(torch.arange(len(weights)), certain)[:count]
    missing = count - len(sure)
    if missing == 0:
        return sure
    fractions = (expected - certain).clamp(min=0)
    drawn = multinomial(rng, fractions / fractions.sum(), missing)
    return torch.cat([sure, drawn]).sort().values


def _inverse(weights: Tensor, points: Tensor) -> Tensor:
    """The particles at ascending `points` of [0, 1) on the line of summed weights."""
    summed = weights.double().cumsum(0)
    ancestors = torch.searchsorted(summed / summed[-1], points, right=True)
    # A point can round up to 1, and must not fall to particles of weight zero at the end.
    last = int(torch.nonzero(weights > 0)[-1])
    return ancestors.clamp(max=last)


RESAMPLING: dict[str, Resampling] = {
    "systematic": systematic,
    "stratified": stratified,
    "residual": residual,
    "multinomial": multinomial,
}
"""The schemes by name."""
