"""Chooses the anchors, the prior around each of them, and the power of the likelihood.

The target is prior × likelihood^power. Before the temperature T, the options give

    s                 N(α(s)·anchor + (1 − α(s))·c, Σ(s))    power 1
    factor_variance   N(c, V)·N(anchor, f)                   power 1
    split             N(anchor, (a·F + a/V)⁻¹)            power 1 − a

N(c, V) is the original prior, with c = 0 except for gains of normalisation layers. A temperature
raises the product to the power 1/T: variances times T, power divided by T.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sbmc.checks import Phrase, is_number, require, require_choice
from sbmc.islands.island import Start, StartAtMembers, start_at_anchor, start_at_prior
from sbmc.likelihoods import Likelihood
from sbmc.model.parameters import ParameterSpace, named_tensors
from sbmc.model.wrappers import unwrapped
from sbmc.prior.gaussian import (
    AnchoredPrior,
    anchored_prior,
    factor_prior,
    laplace_variance,
    linear_variance,
    split_prior,
)
from sbmc.prior.options import USUAL_PRIOR, CovarianceRule, Prior
from sbmc.prior.original import OriginalPrior
from sbmc.target.curvature import has_information

DEFAULT_S = 0.1


@dataclass(frozen=True)
class Anchoring:
    """The prior that the options ask for, and the power of the likelihood; checked when made.

    Args:
        s: the scale, in [0, 1]; 0.1 if neither this nor an option that replaces it is given.
        options: the form of the prior.

    Raises:
        BadInput: `s` breaks its rule, or is given with an option that replaces it.

    Examples:
        >>> Anchoring(options=Prior(split=0.25, posterior_temperature=0.5)).power
        1.5
    """

    s: float | None = None
    options: Prior = USUAL_PRIOR

    def __post_init__(self) -> None:
        instead = self.options.instead_of_s
        if self.s is None and not instead:
            object.__setattr__(self, "s", DEFAULT_S)
        for name in instead:
            both = Phrase(f"both, with s = {self.s!r}")
            require(self.s is None, name, "given alone, since it replaces `s`", both)
        if self.s is not None:
            require(is_number(self.s) and 0 <= self.s <= 1, "s", "in [0, 1]", self.s)

    @property
    def is_point(self) -> bool:
        """Whether the prior is the anchor itself, so that there is nothing to sample."""
        return self.s == 0

    @property
    def curved(self) -> bool:
        """Whether the prior needs the Fisher information at the anchor."""
        laplace = self.options.covariance == "laplace" and not self.is_point
        return laplace or self.options.split is not None

    @property
    def power(self) -> float:
        """The power of the likelihood."""
        share = 1.0 if self.options.split is None else 1.0 - float(self.options.split)
        return share / float(self.options.posterior_temperature)

    def check(self, anchors: Tensor, original: OriginalPrior, likelihood: Likelihood) -> None:
        """Refuse options that do not fit the anchors or the likelihood; data are not read."""
        if self.curved:
            split = self.options.split
            name, value = ("covariance", "'laplace'") if split is None else ("split", split)
            rule = "left out for a likelihood of your own, whose Fisher information is not known"
            require(has_information(likelihood), name, rule, Phrase(value))
            rule = "left out for noise that is learned, whose prior is no part of the split"
            require(split is None or not original.unscaled, name, rule, Phrase(value))
        elif not self.is_point:
            self.prior(anchors[0], original)

    def prior(
        self, anchor: Tensor, original: OriginalPrior, information: Tensor | None = None
    ) -> AnchoredPrior:
        """The prior around one anchor, tempered.

        Args:
            anchor: `(dim,)`.
            original: the prior N(c, V) that s = 1 stands for.
            information: diagonal of the Fisher information, `(dim,)`, if the prior is curved.

        Returns:
            The prior.
        """
        options, variance, centre = self.options, original.variance, original.centre
        if options.factor_variance is not None:
            prior = factor_prior(anchor, float(options.factor_variance), variance, centre)
        elif options.split is not None:
            prior = split_prior(
                anchor, float(options.split), variance, self._require_information(information)
            )
        else:
            rule = options.covariance
            if isinstance(rule, str):
                rule = linear_variance if rule == "linear" else self._laplace(information)
            assert self.s is not None  # for the type checker; see __post_init__
            prior = anchored_prior(
                anchor, float(self.s), variance, alpha=options.alpha, covariance=rule, centre=centre
            )
        prior = original.around(prior)
        temperature = float(options.posterior_temperature)
        return prior if temperature == 1 else prior.tempered(temperature)

    def describe(self) -> dict[str, Any]:
        """The options as settings of a posterior; those that were not used are left out."""
        plain: dict[str, Any] = {"s": None if self.s is None else float(self.s)}
        for name in ("factor_variance", "split"):
            if getattr(self.options, name) is not None:
                plain[name] = float(getattr(self.options, name))
        if self.options.posterior_temperature != 1:
            plain["posterior_temperature"] = float(self.options.posterior_temperature)
        if self.options.covariance == "laplace":
            plain["covariance"] = "laplace"
        return plain

    def _laplace(self, information: Tensor | None) -> CovarianceRule:
        known_information = self._require_information(information)
        return lambda s, variance: laplace_variance(s, variance, known_information)

    def _require_information(self, information: Tensor | None) -> Tensor:
        if information is None:
            raise RuntimeError("a curved prior was built before its information was computed")
        return information


class Anchors(NamedTuple):
    """The anchors, and their cost."""

    positions: Tensor  # (anchors, dim), in the model's own coordinates
    epochs: float


def resolve_anchors(
    model: nn.Module, anchors: Any, epochs: float | None, space: ParameterSpace, like: Tensor
) -> Anchors:
    """The anchors: the model's own weights, or those of the modules given.

    Args:
        model: the network that is evaluated.
        anchors: None, an ensemble or a list of modules.
        epochs: their cost; from their training histories if not given.
        space: the sampled parameters.
        like: a tensor with the dtype and the device of the result.

    Returns:
        The anchors.

    Raises:
        BadInput: they are not modules, have other parameters than the model, or differ from the
            model in weights that are not sampled.
    """
    modules, positions = [model], space.flatten(model).unsqueeze(0).to(like)
    if anchors is not None:
        rule = "an ensemble or a list of modules"
        modules, positions = _members(anchors, "anchors", rule, space, like)
        for index, member in enumerate(modules):
            _require_same_rest(model, member, index, space)
    if epochs is not None:
        return Anchors(positions, float(epochs))
    # An ensemble has the histories of all members, failed ones included; a module has its own.
    histories = getattr(anchors, "histories", [getattr(m, "history", None) for m in modules])
    epochs_known = [getattr(history, "epochs", 0) for history in histories]
    return Anchors(positions, float(sum(each for each in epochs_known if is_number(each))))


def resolve_start(start: Any, space: ParameterSpace, like: Tensor) -> Start:
    """The rule for where particles start; `like` has the dtype and the device."""
    rule = "'anchor', 'prior', an ensemble or a list of modules"
    if not isinstance(start, str):
        return StartAtMembers(_members(start, "start", rule, space, like)[1])
    named = {"anchor": start_at_anchor, "prior": start_at_prior}
    require_choice("start", start, named, rule)
    return named[start]


def _members(
    value: Any, argument: str, rule: str, space: ParameterSpace, like: Tensor
) -> tuple[list[nn.Module], Tensor]:
    """The modules of an ensemble or a list, and their weights `(members, dim)`."""
    # A module may be iterable (Sequential), but its layers are not members.
    several = isinstance(value, Iterable) and not isinstance(value, (str, nn.Sequential))
    # Tensors and arrays can be iterated over too, except for those without an axis.
    several = several and not hasattr(value, "ndim")
    models = [unwrapped(each) for each in value] if several else []
    good = bool(models) and all(isinstance(m, nn.Module) for m in models)
    require(good, argument, rule, Phrase("no modules") if several and not models else value)
    rows = []
    for index, member in enumerate(models):
        tensors = dict(member.named_parameters())
        same = all(
            name in tensors and tensors[name].shape == shape
            for name, shape in zip(space.names, space.shapes, strict=True)
        )
        other = Phrase(f"another module at {index}")
        require(same, argument, "modules with the parameters of `model`", other)
        rows.append(space.flatten(member).to(like))
    members = torch.stack(rows)
    finite = bool(torch.isfinite(members).all())
    require(finite, argument, "modules of finite weights", Phrase("NaN or infinity"))
    return models, members


def _require_same_rest(
    model: nn.Module, member: nn.Module, index: int, space: ParameterSpace
) -> None:
    """Refuse an anchor that differs from the model in weights that are not sampled."""
    model_tensors = named_tensors(model)
    for name, value in named_tensors(member).items():
        # BatchNorm's count of training batches has no part in predictions.
        counter = name.rpartition(".")[2] == "num_batches_tracked"
        if name in space.names or name not in model_tensors or counter:
            continue
        expected = model_tensors[name]
        same = expected.shape == value.shape and torch.equal(expected, value.to(expected))
        rule = "modules that equal `model` in all that is not sampled"
        require(same, "anchors", rule, Phrase(f"another {name} at {index}"))
