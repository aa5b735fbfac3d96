"""Counts that vary more than those of Poisson: the negative binomial distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import Independent
from torch.distributions import NegativeBinomial as NegativeBinomialDistribution
from torch.nn.functional import logsigmoid

from sbmc.likelihoods.likelihood import Kind
from sbmc.likelihoods.noise import NoisePrior, NoisyLikelihood, softened
from sbmc.likelihoods.poisson import require_counts

# The prior of the log dispersion: from 0.007 to 20 with probability 0.95.
PRIOR_MEAN, PRIOR_DEVIATION = -1.0, 2.0


@dataclass(frozen=True, kw_only=True)
class NegativeBinomial(NoisyLikelihood):
    """Counts with the mean μ = exp(output) and the variance μ + d·μ²; d → 0 is Poisson.

        log p(y) = log Γ(y + r) − log Γ(r) − log y! + r log(r/(r + μ)) + y log(μ/(r + μ)),  r = 1/d

    Args:
        dispersion: d, if it is known.
        noise: where it is not known, as for `Gaussian`. The columns are log d.

    Examples:
        >>> NegativeBinomial(dispersion=0.5).distribution(torch.zeros(1, 1)).variance.item()
        1.5
    """

    dispersion: float | None = None
    kind: ClassVar[Kind] = "counts"
    name: ClassVar[str] = "negative-binomial"
    known: ClassVar[str] = "dispersion"

    def log_prob(self, outputs: Tensor, targets: Tensor, *, stacked: bool = False) -> Tensor:
        """Sum over the outputs of the log probability."""
        # In float64: the difference of two log Γ of a large number would lose all its digits.
        log_means, logs = self.split(outputs)
        counts, total = targets.double(), self._total(log_means, logs)
        odds = softened(log_means).double() + logs
        ways = torch.lgamma(counts + total) - torch.lgamma(total) - torch.lgamma(counts + 1)
        chances = total * logsigmoid(-odds) + counts * logsigmoid(odds)
        return (ways + chances).sum(-1).to(outputs.dtype)

    def check(self, targets: Tensor, outputs: Tensor) -> Tensor:
        """Counts as `(examples, outputs)`."""
        values = self._check_columns(targets, outputs)
        require_counts(values)
        return values

    def distribution(self, outputs: Tensor) -> Independent:
        """Independent counts of the columns."""
        log_means, logs = self.split(outputs)
        each = NegativeBinomialDistribution(
            self._total(log_means, logs),
            logits=softened(log_means).double() + logs,
            validate_args=False,
        )
        return Independent(each, 1, validate_args=False)

    def noise_prior(self, targets: Tensor, weights: Tensor | None = None) -> NoisePrior:
        """Of log d, the same for all data."""
        columns = self.noise_columns(targets.shape[-1])
        mean = torch.full((columns,), PRIOR_MEAN, dtype=targets.dtype, device=targets.device)
        return NoisePrior(mean, PRIOR_DEVIATION)

    def _total(self, log_means: Tensor, logs: Tensor | float) -> Tensor:
        """The number r = 1/d, in the shape of the means."""
        wide = torch.as_tensor(logs, dtype=torch.float64, device=log_means.device)
        return (-wide).exp().expand(log_means.shape)
