"""Quantiles of Gaussian mixtures by a fixed number of bisections, in operations of any runtime."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import torch
from torch import Tensor

# The bracket that is left has a billionth of the width of the first one.
HALVINGS = 30


def error_function(values: Tensor) -> Tensor:
    """The error function to seven digits, in the dtype of the values.

    It is taken in float32: ONNX Runtime has it in no longer type.
    """
    if values.dtype == torch.float32:
        return torch.erf(values)
    return torch.erf(values.to(torch.float32)).to(values.dtype)


def normal_cdf(values: Tensor) -> Tensor:
    """P(Z ≤ value) of a standard normal Z, to seven digits."""
    return 0.5 + 0.5 * error_function(values / math.sqrt(2))


def mixture_quantiles(
    means: Tensor,
    deviations: Tensor,
    weights: Tensor,
    levels: Sequence[float],
    halvings: int = HALVINGS,
) -> Tensor:
    """Quantiles of mixtures of normal distributions.

    A quantile of a mixture lies between the smallest and the largest one of its components. The
    bracket is halved so many times, whatever the values are, so that a graph can be drawn of it.

    Args:
        means: of the particles, `(particles, examples, outputs)`. They should be around zero:
            around a large number a dtype has fewer digits left for the quantile.
        deviations: of the particles, of the same shape.
        weights: `(particles,)`, of sum 1.
        levels: between 0 and 1.
        halvings: of the bracket.

    Returns:
        `(levels, examples, outputs)`.

    Examples:
        >>> far_apart = torch.tensor([[[-9.0]], [[9.0]]])
        >>> halves = torch.tensor([0.5, 0.5])
        >>> ends = mixture_quantiles(far_apart, torch.ones(2, 1, 1), halves, [0.25, 0.75])
        >>> [round(end, 3) for end in ends.flatten().tolist()]
        [-9.0, 9.0]
    """
    standard = torch.tensor([NormalDist().inv_cdf(level) for level in levels], dtype=means.dtype)
    each = means + deviations * standard.view(-1, 1, 1, 1)
    low = each.amin(1)
    width = each.amax(1) - low
    # F(y) < level, written with as few operations as can be, since each is repeated:
    # Σ_i w_i erf((y − m_i) / (√2 σ_i)) < 2 level − 1.
    steepness = 1 / (math.sqrt(2) * deviations)
    shifts = means * steepness
    shares = weights.view(-1, 1, 1)
    wanted = torch.tensor([2 * level - 1 for level in levels], dtype=means.dtype).view(-1, 1, 1)
    for halving in range(1, halvings + 1):
        middle = low + width * 0.5**halving
        heights = error_function(middle.unsqueeze(1) * steepness - shifts)
        low = torch.where((heights * shares).sum(1) < wanted, middle, low)
    return low + width * 0.5 ** (halvings + 1)
