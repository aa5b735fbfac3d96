"""Two classes from one logit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import Bernoulli as BernoulliDistribution
from torch.nn.functional import logsigmoid

from sbmc.checks import Phrase, require
from sbmc.likelihoods.likelihood import FisherParts, Kind, Likelihood


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """Two classes, 0 and 1, of a network with one output z: p(1) = 1 / (1 + exp(−z)).

    Predictions have two columns, as those of two classes: the probabilities of 0 and of 1.

    Examples:
        >>> Bernoulli().log_prob(torch.zeros(1, 2, 1), torch.tensor([0.0, 1.0])).exp()
        tensor([[0.5000, 0.5000]])
    """

    kind: ClassVar[Kind] = "classes"
    name: ClassVar[str] = "bernoulli"
    has_fisher: ClassVar[bool] = True

    def log_prob(self, outputs: Tensor, targets: Tensor, *, stacked: bool = False) -> Tensor:
        """Log probability of each label."""
        return bernoulli_log_prob(outputs.squeeze(-1), targets)

    def check(self, targets: Tensor, outputs: Tensor) -> Tensor:
        """Labels 0 and 1 as numbers `(examples,)`, for a model with one output."""
        rule = "a network with outputs (examples, 1), one logit"
        shape = Phrase(f"outputs of shape {tuple(outputs.shape)}")
        require(outputs.ndim == 2 and outputs.shape[1] == 1, "model", rule, shape)
        column = targets.ndim == 2 and targets.shape[1] == 1
        good = targets.ndim == 1 or column
        require(good, "targets", "of shape (examples,) or (examples, 1)", tuple(targets.shape))
        return zeros_and_ones(targets.reshape(-1), outputs.dtype)

    def distribution(self, outputs: Tensor) -> BernoulliDistribution:
        """Probabilities of the label 1."""
        return BernoulliDistribution(logits=outputs.squeeze(-1), validate_args=False)

    def logits(self, outputs: Tensor) -> Tensor:
        """Of the classes 0 and 1: zero, and the output."""
        return two_class_logits(outputs.squeeze(-1))

    def fisher(self, outputs: Tensor) -> FisherParts:
        """The logit, with p(1 − p)."""
        return bernoulli_fisher(outputs)


def bernoulli_log_prob(logits: Tensor, targets: Tensor) -> Tensor:
    """Log p(y) = y·z + log σ(−z), which is finite for any logit z."""
    return targets * logits + logsigmoid(-logits)


def bernoulli_fisher(logits: Tensor) -> FisherParts:
    """Logits z, each with p(1 − p) of its probability p."""
    probs = logits.detach().sigmoid()
    return FisherParts(logits, probs * (1 - probs))


def two_class_logits(logits: Tensor) -> Tensor:
    """Logits `(..., 2)` of off and on, from those of on `(...)`."""
    return torch.stack([torch.zeros_like(logits), logits], -1)


def zeros_and_ones(targets: Tensor, dtype: torch.dtype) -> Tensor:
    """The targets as numbers, if all are 0 or 1."""
    values = targets.to(dtype)
    other = values[(values != 0) & (values != 1)]
    require(len(other) == 0, "targets", "labels 0 or 1", float(other[0]) if len(other) else None)
    return values
