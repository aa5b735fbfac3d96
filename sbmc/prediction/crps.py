"""The continuous ranked probability score of mixtures: how far a distribution is from a value.

    CRPS(F, y) = ∫ (F(x) − 1[x ≥ y])² dx = E|Y − y| − ½ E|Y − Y'|        (Gneiting & Raftery, 2007)

It has the unit of the targets, and for a point prediction it is the absolute error. Lower is
better. Mixtures of Gaussians have a closed form; the others are integrated numerically.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

# Pairs of particles times values that are computed together: 8 MB of float64.
PAIRS_AT_ONCE = 2**20
# Levels at which the line is divided, and Gauss-Legendre nodes between two neighbours. Beyond the
# outermost levels F² and (1 − F)² are below 1e-14.
LEVELS = (
    1e-7,
    1e-5,
    1e-3,
    0.01,
    0.05,
    0.15,
    0.3,
    0.5,
    0.7,
    0.85,
    0.95,
    0.99,
    1 - 1e-3,
    1 - 1e-5,
    1 - 1e-7,
)
NODES = 16
# Integers that are added up together.
INTEGERS_AT_ONCE = 64


def gaussian_mixture_crps(
    means: Tensor, scales: Tensor, weights: Tensor, targets: Tensor
) -> Tensor:
    """CRPS of mixtures of Gaussians, in closed form.

        Σ_i w_i A(y − μ_i, σ_i²) − ½ Σ_ij w_i w_j A(μ_i − μ_j, σ_i² + σ_j²)

    with A(m, s²) = E|N(m, s²)| = 2 s φ(m/s) + m (2 Φ(m/s) − 1)  (Grimit et al., 2006). The second
    sum goes over pairs of particles, some of them at a time, so that memory is bounded.

    Args:
        means: μ, `(particles, ...)` float64.
        scales: σ, of the same shape, positive.
        weights: `(particles,)`, of sum 1.
        targets: y, `(...)`.

    Returns:
        `(...)`, in the unit of the targets.

    Examples:
        >>> one = torch.zeros(1, 1, dtype=torch.float64)
        >>> round(gaussian_mixture_crps(one, one + 1, one[0] + 1, one[0]).item(), 6)
        0.233695
    """
    weights = weights.to(means)
    distance = torch.tensordot(weights, _mean_magnitude(targets - means, scales), 1)
    spread = torch.zeros_like(distance)
    variances = scales.square()
    step = max(1, PAIRS_AT_ONCE // max(1, means.numel()))
    for start in range(0, len(means), step):
        part = slice(start, start + step)
        gaps = means[part].unsqueeze(1) - means
        pairs = _mean_magnitude(gaps, (variances[part].unsqueeze(1) + variances).sqrt())
        spread += torch.tensordot(
            weights[part], torch.tensordot(weights, pairs.transpose(0, 1), 1), 1
        )
    return distance - 0.5 * spread


def integrated_crps(
    distribution_function: Callable[[Tensor], Tensor],
    quantile: Callable[[float], Tensor],
    targets: Tensor,
) -> Tensor:
    """CRPS of continuous distributions from their distribution functions.

    ∫ F² below the target and ∫ (1 − F)² above it, by Gauss-Legendre between quantiles.

    Args:
        distribution_function: values `(...)` -> probabilities `(...)`.
        quantile: a level -> values `(...)`; they need not be exact.
        targets: `(...)`.

    Returns:
        `(...)`.
    """
    inner = torch.stack([quantile(level) for level in LEVELS])
    edges = torch.cat([inner, targets.to(inner).unsqueeze(0)]).sort(0).values
    nodes, shares = np.polynomial.legendre.leggauss(NODES)
    score = torch.zeros_like(edges[0])
    for left, right in pairwise(edges):
        half = (right - left) / 2
        for node, share in zip(nodes.tolist(), shares.tolist(), strict=True):
            values = left + half * (1 + node)
            probability = distribution_function(values)
            above = (values > targets).to(probability)
            score += share * half * (probability - above).square()
    return score


def counted_crps(
    distribution_function: Callable[[Tensor], Tensor], last: Tensor, targets: Tensor
) -> Tensor:
    """CRPS of counts, Σ_k (F(k) − 1[k ≥ y])² over k = 0, 1, ...

    Args:
        distribution_function: counts `(k, ...)` -> probabilities `(k, ...)`.
        last: counts beyond which F is 1, `(...)`.
        targets: `(...)`, counts.

    Returns:
        `(...)`.
    """
    score = torch.zeros_like(targets, dtype=torch.float64)
    highest = int(torch.maximum(last, targets.to(last)).max()) if last.numel() else -1
    for start in range(0, highest + 1, INTEGERS_AT_ONCE):
        stop = min(start + INTEGERS_AT_ONCE, highest + 1)
        counts = torch.arange(start, stop, dtype=torch.float64, device=targets.device)
        counts = counts.view(-1, *[1] * targets.ndim).expand(-1, *targets.shape)
        reached = (counts >= targets).double()
        score += (distribution_function(counts) - reached).square().sum(0)
    return score


def sampled_crps(draws: Tensor, targets: Tensor) -> Tensor:
    """CRPS of the distribution from which draws were made, estimated without bias.

        1/m Σ_d |y_d − y| − 1/(2 m (m − 1)) Σ_{d,e} |y_d − y_e|

    The second sum is computed from sorted draws, in m log m steps.

    Args:
        draws: `(draws, ...)`, two or more.
        targets: `(...)`.

    Returns:
        `(...)`. It can be slightly negative, as an unbiased estimate of a small number can.

    Examples:
        >>> sampled_crps(torch.tensor([[0.0], [2.0]]), torch.tensor([1.0])).item()
        0.0
    """
    count = len(draws)
    ordered = draws.double().sort(0).values
    distance = (ordered - targets.to(ordered)).abs().mean(0)
    # Σ_{d<e} (y_(e) − y_(d)) = Σ_d (2 d − m + 1) y_(d), with d from 0.
    factors = 2 * torch.arange(count, dtype=torch.float64, device=draws.device) - count + 1
    spread = torch.tensordot(factors, ordered, 1) / (count * (count - 1))
    return distance - spread


def class_crps(probs: Tensor, labels: Tensor, *, ordered: bool = False) -> Tensor:
    """The counterpart of CRPS for classes.

    Without an order all wrong classes are equally far, at a distance of 1. The score E d(Y, y) −
    ½ E d(Y, Y') is then half of the Brier score,

        ½ Σ_k (p_k − 1[k = y])²,

    and for two classes the CRPS of a label 0 or 1. With an order, a class is as far as its number
    says, and the score is the ranked probability score, Σ_k (Σ_{j≤k} p_j − 1[y ≤ k])².

    Args:
        probs: `(examples, classes)`.
        labels: `(examples,)` integers.
        ordered: whether the order of classes means something.

    Returns:
        `(examples,)`.

    Examples:
        >>> probs = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]])
        >>> labels = torch.tensor([0, 0])
        >>> class_crps(probs, labels).tolist(), class_crps(probs, labels, ordered=True).tolist()
        ([0.25, 0.25], [0.25, 0.5])
    """
    truth = torch.nn.functional.one_hot(labels, probs.shape[-1]).to(probs)
    if not ordered:
        return 0.5 * (probs - truth).square().sum(-1)
    return (probs.cumsum(-1) - truth.cumsum(-1)).square().sum(-1)


def _mean_magnitude(means: Tensor, scales: Tensor) -> Tensor:
    """E|N(m, s²)|."""
    ratio = means / scales
    density = (-0.5 * ratio.square()).exp() * (2 / math.sqrt(2 * math.pi))
    return scales * density + means * torch.erf(ratio / math.sqrt(2))
