"""Several labels for each row, each of them on or off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.distributions import Bernoulli as BernoulliDistribution
from torch.distributions import Independent

from sbmc.checks import Phrase, require
from sbmc.likelihoods.bernoulli import (
    bernoulli_fisher,
    bernoulli_log_prob,
    two_class_logits,
    zeros_and_ones,
)
from sbmc.likelihoods.likelihood import FisherParts, Kind, Likelihood


@dataclass(frozen=True)
class MultiLabel(Likelihood):
    """L labels, each on or off, independent given the L outputs: p(label l on) = σ(z_l).

    Predictions have the probabilities of off and on for each label, `(examples, labels, 2)`.

    Examples:
        >>> import torch
        >>> targets = torch.tensor([[1.0, 0.0, 1.0]])
        >>> MultiLabel().log_prob(torch.zeros(1, 1, 3), targets).exp()
        tensor([[0.1250]])
    """

    kind: ClassVar[Kind] = "labels"
    name: ClassVar[str] = "multi-label"
    has_fisher: ClassVar[bool] = True

    def log_prob(self, outputs: Tensor, targets: Tensor, *, stacked: bool = False) -> Tensor:
        """Sum over the labels of their log probabilities."""
        return bernoulli_log_prob(outputs, targets).sum(-1)

    def check(self, targets: Tensor, outputs: Tensor) -> Tensor:
        """Labels 0 and 1 as numbers `(examples, labels)`, for a model with as many outputs."""
        shape = tuple(outputs.shape)
        rule = "a network with outputs (examples, labels)"
        require(outputs.ndim == 2, "model", rule, Phrase(f"outputs of shape {shape}"))
        good = targets.ndim == 2 and targets.shape[1] == outputs.shape[1]
        rule = f"of shape (examples, {shape[1]}) like the model's outputs"
        require(good, "targets", rule, tuple(targets.shape))
        return zeros_and_ones(targets, outputs.dtype)

    def distribution(self, outputs: Tensor) -> Independent:
        """Probabilities of each label to be on."""
        each = BernoulliDistribution(logits=outputs, validate_args=False)
        return Independent(each, 1, validate_args=False)

    def logits(self, outputs: Tensor) -> Tensor:
        """Of off and on, `(..., rows, labels, 2)`."""
        return two_class_logits(outputs)

    def fisher(self, outputs: Tensor) -> FisherParts:
        """The logits, with p(1 − p)."""
        return bernoulli_fisher(outputs)
