"""Numbers with noise of heavy tails: Student's t."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import Independent
from torch.distributions import StudentT as StudentTDistribution

from sbmc.checks import is_number, require
from sbmc.likelihoods.gaussian import PRIOR_DEVIATION, PRIOR_OFFSET
from sbmc.likelihoods.likelihood import FisherParts, Kind
from sbmc.likelihoods.noise import NoisePrior, NoisyLikelihood, spread


@dataclass(frozen=True, kw_only=True)
class StudentT(NoisyLikelihood):
    """Regression with outliers: targets are the outputs plus c times Student's t.

        log p(y | f, c) = Σ_k [A − log c_k − (ν+1)/2 · log(1 + (y_k − f_k)² / (ν c_k²))]

    with A = log Γ((ν+1)/2) − log Γ(ν/2) − ½ log(νπ). The noise has the variance c² ν/(ν − 2).

    Args:
        df: degrees of freedom ν, above 2, so that there is a variance.
        scale: c, if it is known.
        noise: where it is not known, as for `Gaussian`. The columns are log c².

    Examples:
        >>> StudentT(df=4.0, scale=1.0).distribution(torch.zeros(1, 1)).variance
        tensor([[2.]])
    """

    df: float = 4.0
    scale: float | None = None
    kind: ClassVar[Kind] = "real"
    name: ClassVar[str] = "student-t"
    known: ClassVar[str] = "scale"
    has_fisher: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require(is_number(self.df) and 2 < self.df < math.inf, "df", "above 2", self.df)
        object.__setattr__(self, "df", float(self.df))
        super().__post_init__()

    def known_log(self) -> float:
        """Twice the logarithm of the scale."""
        assert self.scale is not None
        return 2 * math.log(self.scale)

    def log_prob(self, outputs: Tensor, targets: Tensor, *, stacked: bool = False) -> Tensor:
        """Sum over the outputs of the log density."""
        places, logs = self.split(outputs)
        inverse = (-logs).exp() if isinstance(logs, Tensor) else math.exp(-logs)
        tails = ((places - targets).square() * inverse / self.df).log1p()
        constant = math.lgamma((self.df + 1) / 2) - math.lgamma(self.df / 2)
        constant -= 0.5 * math.log(self.df * math.pi)
        return (constant - 0.5 * logs - 0.5 * (self.df + 1) * tails).sum(-1)

    def check(self, targets: Tensor, outputs: Tensor) -> Tensor:
        """Targets as `(examples, outputs)`."""
        return self._check_columns(targets, outputs)

    def distribution(self, outputs: Tensor) -> Independent:
        """Independent t distributions of the columns."""
        places, logs = self.split(outputs)
        scale = torch.as_tensor(0.5 * logs, dtype=places.dtype, device=places.device).exp()
        each = StudentTDistribution(self.df, places, scale.expand_as(places), validate_args=False)
        return Independent(each, 1, validate_args=False)

    def fisher(self, outputs: Tensor) -> FisherParts:
        """Locations with (ν+1)/((ν+3)c²), and logarithms of c² with ν/(2(ν+3))."""
        place, size = (self.df + 1) / (self.df + 3), self.df / (2 * (self.df + 3))
        return self._location_scale_fisher(outputs, place, size)

    def noise_prior(self, targets: Tensor, weights: Tensor | None = None) -> NoisePrior:
        """Of log c², as for the variance of Gaussian noise."""
        columns = self.noise_columns(targets.shape[-1])
        logs = spread(targets, columns, weights)
        return NoisePrior(logs + PRIOR_OFFSET, PRIOR_DEVIATION)
