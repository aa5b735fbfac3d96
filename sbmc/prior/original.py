"""`prior_variance` in all its forms: from what the user gave to a prior N(centre, V)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from sbmc.checks import BadInput, is_number, require, require_choice
from sbmc.likelihoods import Likelihood
from sbmc.model.data import Examples
from sbmc.model.noise import NOISE
from sbmc.model.parameters import ParameterSpace
from sbmc.prior.by_layer import ByLayer, ParameterPrior, by_entry, mean_square
from sbmc.prior.evidence import maximise_evidence
from sbmc.prior.gaussian import (
    AnchoredPrior,
    Variance,
    require_used,
    resolve_variance,
    value_for_name,
)
from sbmc.prior.weight_decay import WeightDecay

NAMES = ("auto", "evidence")
RULE = (
    '"auto", "evidence", a number, a mapping, a tensor, sbmc.ByLayer(...) or sbmc.WeightDecay(...)'
)
GIVEN = "given"

# What `prior_variance` may be: "auto", "evidence", or one of these.
PriorVariance = str | ByLayer | WeightDecay | Variance | Mapping[str, float | Tensor | str]


@dataclass(frozen=True)
class OriginalPrior:
    """The prior N(centre, V) that the anchored prior becomes at s = 1.

    Args:
        variance: V, `(dim,)`.
        centre: `(dim,)`; None for 0.
        parameters: the same by parameter, with the rules.
        given: what the user asked for, as plain values.
        empirical: how the data decided the prior, as text; None if they did not.
        epochs: passes over the data that this took.
        unscaled: how many of the last coordinates have this prior whatever s is: learned noise.
    """

    variance: Tensor
    centre: Tensor | None
    parameters: tuple[ParameterPrior, ...]
    given: Any
    empirical: str | None = None
    epochs: int = 0
    unscaled: int = 0

    @property
    def settings(self) -> dict[str, Any]:
        """For the settings of a posterior: the argument of the user, and the prior by parameter."""
        plain: dict[str, Any] = {"prior_variance": self.given}
        if any(each.rule != GIVEN for each in self.parameters):
            plain["prior_by_parameter"] = {each.name: each.as_setting() for each in self.parameters}
        if self.empirical is not None:
            plain["evidence_withheld"] = f"empirical Bayes: {self.empirical}"
        return plain

    def to(self, like: Tensor) -> OriginalPrior:
        """The same prior with the dtype and on the device of `like`."""
        centre = None if self.centre is None else self.centre.to(like)
        return replace(self, variance=self.variance.to(like), centre=centre)

    def with_noise(self, mean: Tensor, deviation: float) -> OriginalPrior:
        """The prior with that of learned noise, N(mean `(columns,)`, deviation²), after it."""
        variance = self.variance
        centre = torch.zeros_like(variance) if self.centre is None else self.centre
        mean = mean.to(variance)
        rule = "noise, not scaled by s"
        own = float(mean.double().mean())
        noise = ParameterPrior(NOISE, tuple(mean.shape), rule, deviation**2, centre=own)
        return replace(
            self,
            variance=torch.cat([variance, torch.full_like(mean, deviation**2)]),
            centre=torch.cat([centre, mean]),
            parameters=(*self.parameters, noise),
            unscaled=len(mean),
        )

    def around(self, prior: AnchoredPrior) -> AnchoredPrior:
        """An anchored prior with the coordinates that are not scaled put back."""
        if not self.unscaled:
            return prior
        assert self.centre is not None  # or there is no noise
        rest = len(prior.mean) - self.unscaled
        mean = torch.cat([prior.mean[:rest], self.centre[rest:]])
        scale = torch.cat([prior.scale[:rest], self.variance[rest:].sqrt()])
        return replace(prior, mean=mean, scale=scale)


def resolve_prior(
    prior_variance: PriorVariance,
    model: nn.Module,
    space: ParameterSpace,
    *,
    dtype: torch.dtype,
    trained: Tensor | None = None,
    examples: Examples | int | None = None,
    likelihood: Likelihood | None = None,
) -> OriginalPrior:
    """The prior that `prior_variance` asks for.

    Args:
        prior_variance: `"auto"` or `ByLayer(...)`, by the types of the layers; `WeightDecay(...)`;
            `"evidence"`, by the marginal likelihood; or, centred at 0, what `resolve_variance`
            takes, where a pattern may have `"auto"` for its value.
        model: the network.
        space: the sampled parameters.
        dtype: of the result.
        trained: trained weights that have to stay probable, `(networks, dim)`; None for none.
        examples: the data, or their number, where it is known.
        likelihood: of the model's outputs, for `"evidence"`.

    Returns:
        The prior.

    Raises:
        BadInput: `prior_variance` breaks its rule, or asks for what the model or the data do not
            have.

    Examples:
        >>> from sbmc.model.parameters import select_parameters
        >>> net = nn.Linear(4, 1)
        >>> space = select_parameters(net)
        >>> resolve_prior("auto", net, space, dtype=torch.float32).variance
        tensor([1.2500, 1.2500, 1.2500, 1.2500, 1.0000])
        >>> resolve_prior(WeightDecay(0.01), net, space, dtype=torch.float32, examples=50).variance
        tensor([2., 2., 2., 2., 2.])
    """
    asked = prior_variance
    if isinstance(asked, str):
        require_choice("prior_variance", asked, NAMES, RULE)
        if asked == "evidence":
            return _by_evidence(model, space, dtype, trained, examples, likelihood)
        return _by_rule(ByLayer(), "auto", model, space, dtype, trained)
    if isinstance(asked, ByLayer):
        given = {"by_layer": asked.changed()} if asked.changed() else "auto"
        return _by_rule(asked, given, model, space, dtype, trained)
    if isinstance(asked, WeightDecay):
        return _by_decay(asked, model, space, dtype, trained, examples)
    if isinstance(asked, Mapping) and any(isinstance(value, str) for value in asked.values()):
        return _by_patterns(asked, model, space, dtype, trained)
    good = is_number(asked) or isinstance(asked, Mapping | Tensor)
    require(good, "prior_variance", RULE, asked)
    return _as_given(asked, _describe(asked), space, dtype, trained)


def _by_rule(
    rules: ByLayer,
    given: Any,
    model: nn.Module,
    space: ParameterSpace,
    dtype: torch.dtype,
    trained: Tensor | None,
) -> OriginalPrior:
    return _collected(rules.parameters(model, space, trained), given, dtype)


def _by_decay(
    decay: WeightDecay,
    model: nn.Module,
    space: ParameterSpace,
    dtype: torch.dtype,
    trained: Tensor | None,
    examples: Examples | int | None,
) -> OriginalPrior:
    count = examples if isinstance(examples, int) or examples is None else len(examples)
    variance = decay.variance(count)
    rule = f"weight decay {float(decay.weight_decay):g}" + (", decoupled" * decay.decoupled)
    decayed = decay.decayed(space.names)
    values = {} if trained is None else space.split(trained)
    parameters = [
        ParameterPrior(
            each.name,
            each.shape,
            rule,
            variance,
            mean_square=mean_square(values[each.name], 0.0) if values else None,
        )
        if each.name in decayed
        else each
        for each in ByLayer().parameters(model, space, trained)
    ]
    return _collected(parameters, {"weight_decay": decay.as_setting(count)}, dtype)


def _by_patterns(
    patterns: Mapping[str, Any],
    model: nn.Module,
    space: ParameterSpace,
    dtype: torch.dtype,
    trained: Tensor | None,
) -> OriginalPrior:
    """A mapping in which some patterns are left to the rules."""
    require_used(patterns, space)
    by_rule = {each.name: each for each in ByLayer().parameters(model, space, trained)}
    values: dict[str, float | Tensor] = {}
    for name in space.names:
        value = value_for_name(patterns, name)
        if isinstance(value, str) and value != "auto":
            raise BadInput(
                f'`prior_variance` must have numbers, tensors or "auto" as values, '
                f"but got {value!r} for {name!r}."
            )
        values[name] = by_rule[name].variance if isinstance(value, str) else value
    left = {name for name in space.names if isinstance(value_for_name(patterns, name), str)}
    plain = _as_given(values, _describe(patterns), space, dtype, trained)
    parameters = [by_rule[each.name] if each.name in left else each for each in plain.parameters]
    mixed = _collected(parameters, plain.given, dtype)
    return replace(mixed, variance=plain.variance)


def _by_evidence(
    model: nn.Module,
    space: ParameterSpace,
    dtype: torch.dtype,
    trained: Tensor | None,
    examples: Examples | int | None,
    likelihood: Likelihood | None,
) -> OriginalPrior:
    if not isinstance(examples, Examples) or likelihood is None or trained is None:
        raise BadInput(
            '`prior_variance` must be "auto", sbmc.WeightDecay(...) or a number while there is no '
            'trained network with its data, but got "evidence", which is chosen for one. Train '
            'with "auto", and give "evidence" to `fit`.'
        )
    begin = ByLayer(widen=False).parameters(model, space, trained)
    chosen = maximise_evidence(model, space, trained[0], examples, likelihood, begin)
    prior = _collected(chosen.parameters, "evidence", dtype)
    words = "the variances maximise a Laplace approximation of the marginal likelihood"
    return replace(prior, empirical=words, epochs=chosen.epochs)


def _as_given(
    variance: Any, given: Any, space: ParameterSpace, dtype: torch.dtype, trained: Tensor | None
) -> OriginalPrior:
    resolved = resolve_variance(variance, space, dtype)
    parts, values = space.split(resolved), {} if trained is None else space.split(trained)
    parameters = [
        ParameterPrior(
            name,
            tuple(shape),
            GIVEN,
            float(parts[name].double().mean()),
            mean_square=mean_square(values[name], 0.0) if values else None,
        )
        for name, shape in zip(space.names, space.shapes, strict=True)
    ]
    return OriginalPrior(resolved, None, tuple(parameters), given)


def _collected(
    parameters: Sequence[ParameterPrior], given: Any, dtype: torch.dtype
) -> OriginalPrior:
    centres = [each.centre for each in parameters]
    widened = [each.name for each in parameters if each.widened]
    shown = ", ".join(widened[:3]) + (f" and {len(widened) - 3} more" * (len(widened) > 3))
    return OriginalPrior(
        by_entry(parameters, [each.variance for each in parameters]).to(dtype),
        by_entry(parameters, centres).to(dtype) if any(centres) else None,
        tuple(parameters),
        given,
        f"the prior was widened to the trained weights of {shown}" if widened else None,
    )


def _describe(variance: Any) -> Any:
    """What was given, as plain values."""
    if isinstance(variance, Mapping):
        return {
            pattern: value
            if isinstance(value, str)
            else "tensor"
            if isinstance(value, Tensor) and value.ndim
            else float(value)
            if is_number(value) or isinstance(value, Tensor)
            else value
            for pattern, value in variance.items()
        }
    return "per parameter" if isinstance(variance, Tensor) and variance.ndim else float(variance)
