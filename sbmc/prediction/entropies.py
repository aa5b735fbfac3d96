"""The split of the differential entropy of a mixture, by quadrature, in nats.

    total      H(Σ_i w_i p_i)        of the mixture
    aleatoric  Σ_i w_i H(p_i)        what is left once the particle is known
    epistemic  total − aleatoric     the mutual information of target and parameters

The entropy of a mixture has no closed form. It is −Σ_i w_i E_i[log p(y)], p being the mixture, and
each particle's expectation E_i is taken by Gauss-Hermite quadrature at its own quantiles. Of counts
it is a sum over the integers; of a distribution without quantiles it is the mean over draws. An
entropy of numbers depends on their unit and may be negative. The epistemic part does neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sbmc.prediction.cdf import component_quantiles, is_discrete
from sbmc.prediction.drawing import draw
from sbmc.prediction.predictive import PredictiveMixture
from sbmc.randomness import Stream, generator

NODES, DRAWS = 32, 256
# Values times particles that are computed together: 8 MB of float64.
PAIRS_AT_ONCE = 2**20


class Split(NamedTuple):
    """Uncertainty and its two parts, each `(examples, ...)`."""

    total: Tensor
    aleatoric: Tensor
    epistemic: Tensor


def entropy_split(mixture: PredictiveMixture) -> Split:
    """Split the entropy of each example and output.

    Args:
        mixture: of numbers or counts.

    Returns:
        The three parts, float64; the epistemic one is never negative.

    Examples:
        >>> from torch.distributions import Normal
        >>> far_apart = Normal(torch.tensor([[-99.0], [99.0]], dtype=torch.float64), 1.0)
        >>> mixture = PredictiveMixture(far_apart, torch.tensor([0.5, 0.5]))
        >>> round(entropy_split(mixture).epistemic.item(), 4)  # log 2: which of the two
        0.6931
    """
    parts = _of_counts(mixture) if is_discrete(mixture.components) else _of_numbers(mixture)
    total, aleatoric = parts
    return Split(total, aleatoric, (total - aleatoric).clamp(min=0.0))


def _of_counts(mixture: PredictiveMixture) -> tuple[Tensor, Tensor]:
    log_weights = _aligned(mixture.weights.log(), mixture)
    total = torch.zeros_like(mixture.mean)
    aleatoric = torch.zeros_like(total)
    for count in range(int(mixture.quantile(1 - 1e-9).max()) + 1):
        logs = mixture.components.log_prob(torch.full_like(total, count).unsqueeze(0)).double()
        total -= _p_log_p(torch.logsumexp(logs + log_weights, 0))
        aleatoric -= (log_weights.exp() * _p_log_p(logs)).sum(0)
    return total, aleatoric


def _of_numbers(mixture: PredictiveMixture) -> tuple[Tensor, Tensor]:
    components, weights = mixture.components, _aligned(mixture.weights, mixture)
    total = torch.zeros_like(mixture.mean)
    aleatoric = torch.zeros_like(total)
    for values, share in _nodes(mixture):
        aleatoric -= share * (weights * components.log_prob(values).double()).sum(0)
        step = max(1, PAIRS_AT_ONCE // values.numel())
        for start in range(0, len(values), step):
            some = values[start : start + step]
            logs = torch.stack([components.log_prob(each.unsqueeze(0)).double() for each in some])
            mixed = torch.logsumexp(logs + weights.log(), 1)
            total -= share * (weights[start : start + step] * mixed).sum(0)
    return total, aleatoric


def _nodes(mixture: PredictiveMixture) -> Iterator[tuple[Tensor, float]]:
    """A value of each particle, `(particles, examples, ...)`, and its share of the expectation."""
    nodes, shares = np.polynomial.hermite_e.hermegauss(NODES)
    levels = torch.special.ndtr(torch.from_numpy(nodes)).tolist()
    if component_quantiles(mixture.components, 0.5) is None:
        rng = generator(0, Stream.PREDICTIONS)
        for _ in range(DRAWS):
            yield draw(mixture.components, rng), 1 / DRAWS
        return
    for level, share in zip(levels, (shares / shares.sum()).tolist(), strict=True):
        values = component_quantiles(mixture.components, level)
        assert values is not None
        # The level of an outermost node rounds to 1, where the share is below 1e-20.
        if bool(values.isfinite().all()):
            yield values, share


def _aligned(weights: Tensor, mixture: PredictiveMixture) -> Tensor:
    return weights.view(-1, *[1] * mixture.mean.ndim)


def _p_log_p(logs: Tensor) -> Tensor:
    return torch.where(logs.isneginf(), 0.0, logs.exp() * logs)
