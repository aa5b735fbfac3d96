"""Class labels: one of K classes for each row, from K outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import Categorical as CategoricalDistribution

from sbmc.checks import Phrase, require
from sbmc.likelihoods.likelihood import FisherParts, Kind, Likelihood


@dataclass(frozen=True)
class Categorical(Likelihood):
    """Class labels: log softmax(outputs)[label]."""

    kind: ClassVar[Kind] = "classes"
    name: ClassVar[str] = "categorical"
    has_fisher: ClassVar[bool] = True

    def log_prob(self, outputs: Tensor, targets: Tensor, *, stacked: bool = False) -> Tensor:
        """Log probability of each label."""
        labels = targets.expand(outputs.shape[:-1])
        if outputs.stride(-1) == 1:
            return outputs.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        # Examples lie closer together than classes: over few classes this way is many times faster.
        return outputs.mT.log_softmax(-2).gather(-2, labels.unsqueeze(-2)).squeeze(-2)

    def check(self, targets: Tensor, outputs: Tensor) -> Tensor:
        """Integer labels in 0 .. K-1 for a model with K outputs."""
        require_integers(targets)
        shape = Phrase(f"{tuple(targets.shape)}{label_remedy(targets)}")
        require(targets.ndim == 1, "targets", "of shape (examples,)", shape)
        require(
            outputs.ndim == 2 and outputs.shape[-1] >= 2,
            "model",
            "a network with outputs (examples, classes) and two or more classes",
            Phrase(f"outputs of shape {tuple(outputs.shape)}"),
        )
        labels = targets.long()
        require_labels(labels, outputs.shape[-1])
        return labels

    def distribution(self, outputs: Tensor) -> CategoricalDistribution:
        """Probabilities softmax(outputs)."""
        return CategoricalDistribution(logits=outputs, validate_args=False)

    def logits(self, outputs: Tensor) -> Tensor:
        """The outputs themselves."""
        return outputs

    def fisher(self, outputs: Tensor) -> FisherParts:
        """Log probabilities, each with its probability: Σ_c p_c (∂ log p_c/∂θ)²."""
        logs = outputs.log_softmax(-1)
        return FisherParts(logs, logs.detach().exp())


def is_integer(dtype: torch.dtype) -> bool:
    """Whether a dtype is one of integers; that of truth values is not."""
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def require_integers(targets: Tensor, name: str = "targets") -> None:
    """Refuse labels that are not integers."""
    kind = Phrase(f"dtype {targets.dtype}{label_remedy(targets)}")
    require(is_integer(targets.dtype), name, "integer class labels", kind)


def require_labels(labels: Tensor, classes: int, name: str = "targets") -> None:
    """Refuse labels outside 0 .. K-1."""
    low, high = int(labels.min()), int(labels.max())
    require(low >= 0, name, "class labels of at least 0", low)
    rule = f"class labels below the model's {classes} outputs"
    remedy = "; targets - 1 makes labels that begin at 0" if low == 1 and high == classes else ""
    require(high < classes, name, rule, Phrase(f"label {high}{remedy}"))


def is_one_hot(targets: Tensor) -> bool:
    """Whether every one of several rows has a single 1 among zeros."""
    if targets.ndim != 2 or len(targets) < 2 or targets.shape[1] < 2:
        return False
    values = targets.double()
    return bool((values.sum(1) == 1).all()) and bool(((values == 0) | (values == 1)).all())


def label_remedy(targets: Tensor) -> str:
    """How to make class labels of these targets, to follow what was given; empty if not known."""
    if is_one_hot(targets):
        return "; targets.argmax(1) makes labels of one-hot rows"
    if targets.ndim == 2 and targets.shape[1] == 1:
        whole = "" if is_integer(targets.dtype) else ".long()"
        return f"; targets[:, 0]{whole} makes labels of one column"
    if targets.ndim == 1 and not is_integer(targets.dtype):
        return "; targets.long() makes labels of whole numbers"
    return ""
