"""Targets in units of their own: the network was trained on targets that had been standardised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, Normal, StudentT

from sbmc.checks import Phrase, require
from sbmc.likelihoods.likelihood import Kind, Likelihood, TargetMoments


class Rescaled(Likelihood):
    """A likelihood of targets y = shift + scale·u, where `base` is that of u.

        log p(y | f) = log p_base((y − shift) / scale | f) − Σ_k log scale_k

    The last term is the Jacobian of the change of units. Everything is in float64: numbers of a
    large mean and a small spread keep their digits.

    Args:
        base: of numbers, with distributions that are normal or Student's t.
        shift: one number for each output.
        scale: as many, positive.

    Raises:
        BadInput: the base has other targets than numbers, or a scale is not positive.

    Examples:
        >>> from sbmc.likelihoods.gaussian import Gaussian
        >>> celsius = Gaussian(noise_variance=1.0)
        >>> fahrenheit = Rescaled(celsius, [32.0], [1.8])
        >>> fahrenheit.moments(torch.tensor([[100.0]]))
        TargetMoments(mean=tensor([[212.]], dtype=torch.float64), variance=...3.24...)
    """

    name: ClassVar[str] = "rescaled"

    def __init__(
        self, base: Likelihood, shift: Sequence[float] | Tensor, scale: Sequence[float] | Tensor
    ) -> None:
        require(base.kind == "real", "base", "a likelihood of numbers", Phrase(base.name))
        self.base = base
        self.shift = torch.as_tensor(shift, dtype=torch.float64)
        self.scale = torch.as_tensor(scale, dtype=torch.float64)
        good = bool((self.scale > 0).all()) and self.scale.shape == self.shift.shape
        require(good, "scale", "positive, one for each shift", self.scale.tolist())

    @property
    def kind(self) -> Kind:
        """Numbers."""
        return self.base.kind

    def log_prob(self, outputs: Tensor, targets: Tensor, *, stacked: bool = False) -> Tensor:
        """Log density in the units of the targets."""
        shift, scale = self._units(outputs)
        standardised = (targets.double() - shift) / scale
        density = self.base.log_prob(outputs.double(), standardised, stacked=stacked)
        return density - scale.log().sum()

    def check(self, targets: Tensor, outputs: Tensor) -> Tensor:
        """Targets as `(examples, outputs)`, float64."""
        return self.base.check(targets, outputs.double())

    def distribution(self, outputs: Tensor) -> Distribution:
        """That of the base, shifted and stretched."""
        shift, scale = self._units(outputs)
        joint = self.base.distribution(outputs.double())
        require(isinstance(joint, Independent), "base", "of independent outputs", joint)
        assert isinstance(joint, Independent)
        each = joint.base_dist
        stretched: Distribution
        if isinstance(each, Normal):
            stretched = Normal(shift + scale * each.loc, scale * each.scale, validate_args=False)
        else:
            rule = "one whose distributions are normal or Student's t"
            require(isinstance(each, StudentT), "base", rule, Phrase(type(each).__name__))
            place, width = shift + scale * each.loc, scale * each.scale
            stretched = StudentT(each.df, place, width, validate_args=False)
        return Independent(stretched, 1, validate_args=False)

    def moments(self, outputs: Tensor) -> TargetMoments:
        """Those of the base, shifted and stretched."""
        shift, scale = self._units(outputs)
        mean, variance = self.base.moments(outputs.double())
        return TargetMoments(shift + scale * mean, (scale.square() * variance).expand_as(mean))

    def describe(self) -> dict[str, Any]:
        """The base and the units, as plain values."""
        units = {"shift": self.shift.tolist(), "scale": self.scale.tolist()}
        return {"name": self.name, "base": self.base.describe(), **units}

    def _units(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        return self.shift.to(outputs.device), self.scale.to(outputs.device)
