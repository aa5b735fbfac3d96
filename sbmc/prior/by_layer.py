"""The prior by layer: a variance and a centre for every parameter, by the type of its layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from sbmc.checks import is_number, require, require_flag
from sbmc.model.parameters import ParameterSpace
from sbmc.prior.layer_rules import Rule, rules_of_model

# What "auto" is for training, which looks for a maximum. In many dimensions the mode of a narrow
# prior is far from where its mass is: trained on 320 digits with 5 / fan_in, an MLP 4 × 64 shrinks
# to nothing (10 % correct), where at least 1 for every weight gives 90 %.
LEAST_IN_TRAINING = 1.0
# A layer's trained weights may have at most this mean square, in units of the prior's variance.
MOST_MEAN_SQUARE = 2.0


@dataclass(frozen=True)
class ParameterPrior:
    """The original prior of one parameter, compared with the trained weights.

    Args:
        name: of the parameter.
        shape: its shape.
        rule: where the variance comes from, as text.
        variance: of each entry; the mean of them where they differ.
        centre: of each entry.
        fan_in: what the rule divides by, if it does.
        mean_square: of the trained weights around the centre; None if there are none to look at.
        widened: whether the variance was raised to keep the trained weights probable.
        shared_with: other names of the parameter, if layers share it.
        guessed: whether the shape decided, since the type of the layer is not known.
    """

    name: str
    shape: tuple[int, ...]
    rule: str
    variance: float
    centre: float = 0.0
    fan_in: int | None = None
    mean_square: float | None = None
    widened: bool = False
    shared_with: tuple[str, ...] = ()
    guessed: bool = False

    @property
    def trained_rms(self) -> float | None:
        """Root mean square of the trained weights around the centre, in prior deviations."""
        return None if self.mean_square is None else math.sqrt(self.mean_square / self.variance)

    def as_setting(self) -> dict[str, Any]:
        """Plain values for `posterior.settings`, without defaults."""
        plain: dict[str, Any] = {"rule": self.rule, "variance": self.variance}
        if self.centre:
            plain["centre"] = self.centre
        if self.fan_in is not None:
            plain["fan_in"] = self.fan_in
        if self.widened:
            plain["widened"] = True
        return plain


@dataclass(frozen=True, kw_only=True, repr=False)
class ByLayer:
    """Variances by the type of the layer; `prior_variance="auto"` is this with its defaults.

    | parameters | prior |
    |---|---|
    | weights of linear, convolutional, recurrent and attention layers | N(0, weights / fan_in) |
    | biases | N(0, biases) |
    | gains of normalisation layers | N(1, gains) |
    | embeddings | N(0, embeddings) |
    | LoRA factors | such that scaling · B A has the variance weights / fan_in |

    A parameter that layers share has the rule of its narrowest use. One of a layer that is not
    known follows its shape. Where the trained weights of a parameter are so large that their mean
    square around the centre is more than twice the variance, the variance is raised to half that
    mean square. This reads the prior off the data (empirical Bayes), and is reported.

    Args:
        weights: c of the variance c / fan_in.
        biases: variance of biases.
        gains: variance of the gains of normalisation layers, around 1.
        embeddings: variance of embeddings.
        least: raises every variance that is below it; 0 raises none.
        widen: whether to keep the trained weights probable, as described.

    Raises:
        BadInput: a variance that is not positive and finite.

    Examples:
        >>> ByLayer(weights=2.0)
        ByLayer(weights=2.0)
        >>> ByLayer(biases=0)
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `biases` must be positive and finite, but got 0.
    """

    # He's initialisation has 2 / fan_in for ReLU, and trained weights are larger than initial ones.
    # On three tables and four MLPs on digits, 5 kept the accuracy at s = 1 where 2 underfitted.
    weights: float = 5.0
    # Wide: a bias shifts a unit by the scale of its inputs, which are standardised as a rule.
    biases: float = 1.0
    # Two deviations reach from 1 to 0, where a gain would change its sign.
    gains: float = 0.25
    # Torch draws embeddings from N(0, 1); nothing is summed over, so there is no fan-in.
    embeddings: float = 1.0
    least: float = 0.0
    widen: bool = True

    def __post_init__(self) -> None:
        for name in ("weights", "biases", "gains", "embeddings"):
            value = getattr(self, name)
            good = is_number(value) and 0 < value < math.inf
            require(good, name, "positive and finite", value)
        good = is_number(self.least) and 0 <= self.least < math.inf
        require(good, "least", "a non-negative number", self.least)
        require_flag("widen", self.widen)

    def __repr__(self) -> str:
        """What differs from the defaults."""
        shown = ", ".join(f"{name}={value!r}" for name, value in self.changed().items())
        return f"ByLayer({shown})"

    def changed(self) -> dict[str, Any]:
        """The fields that differ from the defaults, by name."""
        values = ((item.name, getattr(self, item.name), item.default) for item in fields(self))
        return {name: value for name, value, default in values if value != default}

    def variance_of(self, rule: Rule) -> float:
        """The variance that a rule gives."""
        scale = 1.0 if rule.scale == "unit" else float(getattr(self, rule.scale))
        return max(scale * rule.factor / (rule.fan_in or 1), float(self.least))

    def parameters(
        self, model: nn.Module, space: ParameterSpace, trained: Tensor | None
    ) -> list[ParameterPrior]:
        """The prior of every sampled parameter.

        Args:
            model: the network.
            space: the sampled parameters.
            trained: weights that have to stay probable, `(networks, dim)`; None for none.

        Returns:
            The priors, in the order of the space.

        Examples:
            >>> from sbmc.model.parameters import select_parameters
            >>> net = nn.Sequential(nn.Linear(10, 4), nn.LayerNorm(4))
            >>> space = select_parameters(net)
            >>> [(p.centre, p.variance) for p in ByLayer().parameters(net, space, None)]
            [(0.0, 0.5), (0.0, 1.0), (1.0, 0.25), (0.0, 1.0)]
        """
        values: dict[str, Tensor] = {} if trained is None else space.split(trained)
        parts = zip(space.names, space.shapes, rules_of_model(model, space), strict=True)
        return [
            self._parameter(name, shape, rules, values.get(name)) for name, shape, rules in parts
        ]

    def _parameter(
        self, name: str, shape: torch.Size, rules: dict[str, Rule], values: Tensor | None
    ) -> ParameterPrior:
        # Tied: what is narrow enough for one of the layers suits all of them.
        rule = min(rules.values(), key=self.variance_of)
        variance = self.variance_of(rule)
        square = None if values is None else mean_square(values, rule.centre)
        widened = False
        if self.widen and square is not None and math.isfinite(square):
            widened = square > MOST_MEAN_SQUARE * variance
            variance = max(variance, square / MOST_MEAN_SQUARE)
        return ParameterPrior(
            name,
            tuple(shape),
            rule.words,
            variance,
            rule.centre,
            rule.fan_in,
            square,
            widened,
            tuple(path for path in rules if path != name),
            rule.guessed,
        )


def mean_square(values: Tensor, centre: float) -> float:
    """Mean square of a parameter's values around a centre, in double precision.

    Args:
        values: of one or more networks, `(networks, ...)`.
        centre: of the prior.

    Returns:
        The median over the networks, so that one whose weights ran away does not decide for the
        others.

    Examples:
        >>> mean_square(torch.tensor([[1.0, 3.0], [2.0, 2.0], [1.0, 1e30]]), 1.0)
        2.0
    """
    offsets = values.detach().double() - centre
    return float(offsets.flatten(1).square().mean(1).median())


def by_entry(parameters: Sequence[ParameterPrior], values: Sequence[float]) -> Tensor:
    """One value for each parameter, repeated for its entries: `(dim,)` in double precision."""
    sizes = torch.tensor([math.prod(each.shape) for each in parameters])
    return torch.tensor(values, dtype=torch.float64).repeat_interleave(sizes)
