"""Counts with a rate that the network gives: Poisson."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import Independent
from torch.distributions import Poisson as PoissonDistribution

from sbmc.checks import Phrase, require
from sbmc.likelihoods.likelihood import FisherParts, Kind, Likelihood
from sbmc.likelihoods.noise import softened


@dataclass(frozen=True)
class Poisson(Likelihood):
    """Counts: outputs are logarithms of the rates, log p(y | f) = y·f − exp(f) − log y!

    Examples:
        >>> Poisson().distribution(torch.zeros(1, 1)).variance
        tensor([[1.]])
    """

    kind: ClassVar[Kind] = "counts"
    name: ClassVar[str] = "poisson"
    has_fisher: ClassVar[bool] = True

    def log_prob(self, outputs: Tensor, targets: Tensor, *, stacked: bool = False) -> Tensor:
        """Sum over the outputs of the log probability."""
        logs = softened(outputs)
        return (targets * logs - logs.exp() - torch.lgamma(targets + 1)).sum(-1)

    def check(self, targets: Tensor, outputs: Tensor) -> Tensor:
        """Counts as `(examples, outputs)`."""
        shape = tuple(outputs.shape)
        rule = "a network with outputs (examples, outputs)"
        require(outputs.ndim == 2, "model", rule, Phrase(f"outputs of shape {shape}"))
        values = targets.to(outputs.dtype)
        values = values.unsqueeze(-1) if values.ndim == 1 else values
        good = values.ndim == 2 and values.shape[1] == shape[1]
        rule = f"of shape (examples, {shape[1]}) like the model's outputs"
        require(good, "targets", rule, tuple(targets.shape))
        require_counts(values)
        return values

    def distribution(self, outputs: Tensor) -> Independent:
        """Independent counts of the columns."""
        each = PoissonDistribution(softened(outputs).exp(), validate_args=False)
        return Independent(each, 1, validate_args=False)

    def fisher(self, outputs: Tensor) -> FisherParts:
        """Logarithms of the rates, with the rates."""
        logs = softened(outputs)
        return FisherParts(logs, logs.detach().exp())


def require_counts(values: Tensor) -> None:
    """Refuse targets that are not 0, 1, 2, ..."""
    bad = values[(values < 0) | (values != values.round())]
    require(len(bad) == 0, "targets", "counts 0, 1, 2, ...", float(bad[0]) if len(bad) else None)
