"""Log likelihood of targets given a model's outputs, one value per example, never averaged."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from sbmc.checks import BadInput, Phrase, is_number, nearest, require


class Likelihood(Protocol):
    """The interface of a likelihood.

    `log_prob(outputs (..., examples, K), targets)` gives `(..., examples)`; the targets are shared
    by the leading axes, or, with `stacked`, come with them; `check(targets, outputs)` returns the
    targets in the form that `log_prob` wants, or refuses them.
    """

    @property
    def classification(self) -> bool:
        """Whether the outputs are logits, so that predictions are class probabilities."""

    def log_prob(self, outputs: Tensor, targets: Tensor, *, stacked: bool = False) -> Tensor:
        """Log likelihood of each example."""

    def check(self, targets: Tensor, outputs: Tensor) -> Tensor:
        """The targets, ready to use, given the outputs `(examples, K)` for the first of them."""


@dataclass(frozen=True)
class Categorical:
    """Class labels: log softmax(outputs)[label]."""

    classification = True

    def log_prob(self, outputs: Tensor, targets: Tensor, *, stacked: bool = False) -> Tensor:
        """Log probability of each label."""
        labels = targets.expand(outputs.shape[:-1])
        if outputs.stride(-1) == 1:
            return outputs.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        # Examples lie closer together than classes: over few classes this way is many times faster.
        return outputs.mT.log_softmax(-2).gather(-2, labels.unsqueeze(-2)).squeeze(-2)

    def check(self, targets: Tensor, outputs: Tensor) -> Tensor:
        """Integer labels in 0 .. K-1 for a model with K outputs."""
        kind = targets.dtype
        integers = not (kind.is_floating_point or kind.is_complex or kind == torch.bool)
        require(integers, "targets", "integer class labels", Phrase(f"dtype {kind}"))
        require(targets.ndim == 1, "targets", "of shape (examples,)", tuple(targets.shape))
        require(
            outputs.ndim == 2 and outputs.shape[-1] >= 2,
            "model",
            "a network with outputs (examples, classes) and two or more classes",
            Phrase(f"outputs of shape {tuple(outputs.shape)}"),
        )
        labels = targets.long()
        classes, low, high = outputs.shape[-1], int(labels.min()), int(labels.max())
        require(low >= 0, "targets", "class labels of at least 0", low)
        rule = f"class labels below the model's {classes} outputs"
        require(high < classes, "targets", rule, Phrase(f"label {high}"))
        return labels


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """Regression: targets are the outputs plus noise, N(output, noise_variance).

    Args:
        noise_variance: the variance of the noise, known.
    """

    noise_variance: float
    classification = False

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


@dataclass(frozen=True)
class Custom:
    """A user's log likelihood.

    Args:
        function: `(outputs (examples, ...), targets) -> (examples,)`, differentiable in the
            outputs.
        classification: whether the outputs are logits, so that predictions are class probabilities;
            otherwise predictions are the outputs' mean with their epistemic variance, and the
            aleatoric variance is zero, since the function does not define it.
    """

    function: Callable[[Tensor, Tensor], Tensor]
    classification: bool = False

    def log_prob(self, outputs: Tensor, targets: Tensor, *, stacked: bool = False) -> Tensor:
        """The function's values, one particle after the other."""
        each = targets if stacked else [targets] * len(outputs)
        return torch.stack([self.function(o, t) for o, t in zip(outputs, each, strict=True)])

    def check(self, targets: Tensor, outputs: Tensor) -> Tensor:
        """Call the function on the first examples, and check its values."""
        with torch.enable_grad():
            values = self.function(
                outputs.detach().clone().requires_grad_(), targets[: len(outputs)]
            )
        tensor = isinstance(values, Tensor)
        shown = f"shape {tuple(values.shape)}" if tensor else type(values).__name__
        good = tensor and values.shape == (len(outputs),)
        require(good, "likelihood", "a function that returns one value per example", Phrase(shown))
        rule = "a function that is differentiable in the outputs"
        require(values.requires_grad, "likelihood", rule, Phrase("values without a gradient"))
        return targets


def as_likelihood(likelihood: object) -> Likelihood:
    """`"categorical"`, a likelihood object, or a callable `(outputs, targets) -> (examples,)`."""
    if isinstance(likelihood, (Categorical, Gaussian, Custom)):
        return likelihood
    if isinstance(likelihood, str):
        if likelihood == "categorical":
            return Categorical()
        hint = nearest(likelihood, ["categorical"])
        raise BadInput(
            f"`likelihood` must be 'categorical', sbmc.Gaussian(noise_variance=...) or a callable, "
            f"but got {likelihood!r}.{hint}"
        )
    if callable(likelihood) and not isinstance(likelihood, type):
        return Custom(likelihood)
    raise BadInput(
        f"`likelihood` must be 'categorical', sbmc.Gaussian(noise_variance=...) or a callable, "
        f"but got {type(likelihood).__name__}."
    )
