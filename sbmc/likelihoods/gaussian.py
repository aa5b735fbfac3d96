"""Numbers with Gaussian noise: known, learned with the weights, or given by the network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import Independent, Normal

from sbmc.likelihoods.likelihood import FisherParts, Kind, Likelihood, TargetMoments
from sbmc.likelihoods.noise import NoisePrior, NoisyLikelihood, spread

# The prior of a log variance: σ is most probably 0.37 times the spread of the targets, and from
# 0.05 to 2.7 times with probability 0.95.
PRIOR_OFFSET, PRIOR_DEVIATION = -2.0, 2.0


@dataclass(frozen=True, kw_only=True)
class Gaussian(NoisyLikelihood):
    """Regression: targets are the outputs plus noise, N(output, σ²).

        log p(y | f, σ²) = −½ Σ_k [(y_k − f_k)² / σ_k² + log σ_k² + log 2π]

    A log variance that is learned has the prior N(log var(targets) − 2, 2²), whatever s is. With s
    = 0 it is its most probable value, given the network.

    Args:
        noise_variance: σ², if it is known.
        noise: where it is not known: `"learned"` (the default), one σ² for each output, sampled
            with the weights; `"shared"`, one for all outputs; `"network"`, given by the network,
            whose outputs are the means and then as many log variances.

    Examples:
        >>> outputs = torch.tensor([[[0.0, math.log(4.0)]]])  # a mean and a log variance
        >>> Gaussian(noise="network").distribution(outputs).variance
        tensor([[[4.]]])
    """

    noise_variance: float | None = None
    kind: ClassVar[Kind] = "real"
    name: ClassVar[str] = "gaussian"
    known: ClassVar[str] = "noise_variance"
    has_fisher: ClassVar[bool] = True

    def log_prob(self, outputs: Tensor, targets: Tensor, *, stacked: bool = False) -> Tensor:
        """Sum over the outputs of the log normal density."""
        if self.noise_variance is not None:
            constant = math.log(2 * math.pi * self.noise_variance)
            square = (outputs - targets).square() / self.noise_variance
            return -0.5 * (square + constant).sum(-1)
        means, logs = self.split(outputs)
        assert isinstance(logs, Tensor)
        square = (means - targets).square() * (-logs).exp()
        return -0.5 * (square + logs + math.log(2 * math.pi)).sum(-1)

    def check(self, targets: Tensor, outputs: Tensor) -> Tensor:
        """Targets as `(examples, outputs)`."""
        return self._check_columns(targets, outputs)

    def distribution(self, outputs: Tensor) -> Independent:
        """Independent normal distributions of the columns."""
        means, logs = self.split(outputs)
        scale = torch.as_tensor(0.5 * logs, dtype=means.dtype, device=means.device).exp()
        each = Normal(means, scale.expand_as(means), validate_args=False)
        return Independent(each, 1, validate_args=False)

    def moments(self, outputs: Tensor) -> TargetMoments:
        """The means, and the variance of the noise."""
        means, logs = self.split(outputs)
        if self.noise_variance is not None:
            return TargetMoments(means, self.noise_variance)
        assert isinstance(logs, Tensor)
        return TargetMoments(means, logs.double().exp().expand(means.shape))

    def fisher(self, outputs: Tensor) -> FisherParts:
        """Means with 1/σ², and log variances with ½."""
        if self.noise_variance is not None:
            return FisherParts(outputs, torch.full_like(outputs, 1 / self.noise_variance).detach())
        return self._location_scale_fisher(outputs, 1.0, 0.5)

    def noise_prior(self, targets: Tensor, weights: Tensor | None = None) -> NoisePrior:
        """Around a part of the variance of the targets."""
        columns = self.noise_columns(targets.shape[-1])
        logs = spread(targets, columns, weights)
        return NoisePrior(logs + PRIOR_OFFSET, PRIOR_DEVIATION)


def known_variance(likelihood: Likelihood) -> float | None:
    """The variance of Gaussian noise that is known; None for any other likelihood."""
    return likelihood.noise_variance if isinstance(likelihood, Gaussian) else None
