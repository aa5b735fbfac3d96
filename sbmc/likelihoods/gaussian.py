"""Numbers with Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import Independent, Normal

from sbmc.checks import Phrase, is_number, require
from sbmc.likelihoods.likelihood import Kind, Likelihood, TargetMoments


@dataclass(frozen=True, kw_only=True)
class Gaussian(Likelihood):
    """Regression: targets are the outputs plus noise, N(output, noise_variance).

    Args:
        noise_variance: the variance of the noise, known.
    """

    noise_variance: float
    kind: ClassVar[Kind] = "real"
    name: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        good = is_number(self.noise_variance) and 0 < self.noise_variance < math.inf
        require(good, "noise_variance", "positive and finite", self.noise_variance)
        object.__setattr__(self, "noise_variance", float(self.noise_variance))

    def log_prob(self, outputs: Tensor, targets: Tensor, *, stacked: bool = False) -> Tensor:
        """Sum over the outputs of the log normal density."""
        constant = math.log(2 * math.pi * self.noise_variance)
        square = (outputs - targets).square() / self.noise_variance
        return -0.5 * (square + constant).sum(-1)

    def check(self, targets: Tensor, outputs: Tensor) -> Tensor:
        """Targets as `(examples, outputs)`."""
        shape = tuple(outputs.shape)
        rule = "a network with outputs (examples, outputs)"
        require(outputs.ndim == 2, "model", rule, Phrase(f"outputs of shape {shape}"))
        values = targets.to(outputs.dtype)
        if values.ndim == 1:
            values = values.unsqueeze(-1)
        require(
            values.ndim == 2 and values.shape[1] == outputs.shape[1],
            "targets",
            f"of shape (examples, {outputs.shape[-1]}) like the model's outputs",
            tuple(targets.shape),
        )
        return values

    def distribution(self, outputs: Tensor) -> Independent:
        """Independent normal distributions of the columns."""
        scale = torch.full_like(outputs, math.sqrt(self.noise_variance))
        return Independent(Normal(outputs, scale, validate_args=False), 1, validate_args=False)

    def moments(self, outputs: Tensor) -> TargetMoments:
        """The outputs, and the variance of the noise."""
        return TargetMoments(outputs, self.noise_variance)
