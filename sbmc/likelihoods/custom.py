"""A log likelihood that is a user's function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Categorical as CategoricalDistribution

from sbmc.checks import BadInput, Phrase, describe_value, require, require_flag, require_function
from sbmc.likelihoods.likelihood import Kind, Likelihood, TargetMoments
from sbmc.log import logger


@dataclass(frozen=True)
class Custom(Likelihood):
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
    name: ClassVar[str] = "custom"

    def __post_init__(self) -> None:
        require_function("function", self.function, "outputs and targets")
        require_flag("classification", self.classification)

    @property
    def kind(self) -> Kind:
        """Classes or numbers, by what was said."""
        return "classes" if self.classification else "real"

    def log_prob(self, outputs: Tensor, targets: Tensor, *, stacked: bool = False) -> Tensor:
        """The function's values, one particle after the other."""
        each = targets if stacked else [targets] * len(outputs)
        return torch.stack([self.function(o, t) for o, t in zip(outputs, each, strict=True)])

    def check(self, targets: Tensor, outputs: Tensor) -> Tensor:
        """Call the function on the first examples, and check its values."""
        point = outputs.detach().clone().requires_grad_()
        try:
            with torch.enable_grad():
                values = self.function(point, targets[: len(outputs)])
        except Exception as error:
            raise BadInput(
                "`likelihood` must be a function of outputs and targets, but got one that fails "
                f"for outputs of shape {tuple(outputs.shape)} and targets of shape "
                f"{tuple(targets[: len(outputs)].shape)}. The error is above."
            ) from error
        tensor = isinstance(values, Tensor)
        shown = f"shape {tuple(values.shape)}" if tensor else describe_value(values)
        good = tensor and values.shape == (len(outputs),)
        require(good, "likelihood", "a function that returns one value per example", Phrase(shown))
        rule = "a function that is differentiable in the outputs"
        require(values.requires_grad, "likelihood", rule, Phrase("values without a gradient"))
        if self.classification:
            rule = "False unless outputs are logits (examples, classes) of two or more classes"
            shape = Phrase(f"True for outputs of shape {tuple(outputs.shape)}")
            good = outputs.ndim == 2 and outputs.shape[1] >= 2
            require(good, "classification", rule, shape)
        else:
            logger.info(
                "a log likelihood alone does not tell the noise: predictions have an aleatoric "
                "variance of 0. sbmc.Likelihood.of(function) knows it from a torch Distribution."
            )
        return targets

    def distribution(self, outputs: Tensor) -> CategoricalDistribution:
        """Classes by their logits; of numbers a log likelihood alone has no distribution."""
        if self.classification:
            return CategoricalDistribution(logits=outputs, validate_args=False)
        raise BadInput(
            "`likelihood` must be one with a predictive distribution for samples, intervals and "
            "scores, but got a function that gives log likelihoods alone. "
            "sbmc.Likelihood.of(function) takes one that returns a torch Distribution."
        )

    def logits(self, outputs: Tensor) -> Tensor:
        """The outputs themselves."""
        return outputs

    def moments(self, outputs: Tensor) -> TargetMoments:
        """The outputs, without noise."""
        return TargetMoments(outputs, 0.0)

    def describe(self) -> dict[str, Any]:
        """A function cannot be described further."""
        return {"name": self.name, "classification": self.classification}
