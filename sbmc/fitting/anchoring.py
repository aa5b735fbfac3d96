"""From the arguments of `fit` to its priors: which anchors, which prior around each, which power.

The target is prior × likelihood^power. What the options make of them, before the temperature T:

    s                 N(α(s)·anchor, Σ(s))                   power 1
    factor_variance   N(0, V)·N(anchor, f)                   power 1
    split             N(anchor, (a·F + a/V)^{-1})            power 1 − a

A temperature raises the product to the power 1/T: variances times T, power divided by T.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sbmc.checks import BadInput, Phrase, is_number, nearest, require
from sbmc.islands.island import Start, StartAtMembers, start_at_anchor, start_at_prior
from sbmc.likelihoods import Likelihood
from sbmc.model.parameters import ParameterSpace, named_tensors
from sbmc.prior.gaussian import (
    AnchoredPrior,
    anchored_prior,
    factor_prior,
    laplace_variance,
    linear_variance,
    split_prior,
    step_weight,
)
from sbmc.target.curvature import has_information

DEFAULT_S = 0.1
COVARIANCES = ("linear", "laplace")

CovarianceRule = Callable[[float, Tensor], Tensor]


@dataclass(frozen=True)
class Anchoring:
    """The prior that the options ask for, and the power of the likelihood; checked when made.

    Args:
        s: the scale, in [0, 1]; 0.1 if neither this nor one of the next two is given.
        factor_variance: f of the Gaussian factor, instead of `s`.
        split: the fraction of the likelihood that a Laplace approximation stands for, instead of
            `s`.
        posterior_temperature: T.
        alpha: the rule α(s).
        covariance: the rule Σ(s): `"linear"`, `"laplace"`, or a function of s and the variances.

    Raises:
        BadInput: a value breaks its rule, or two options exclude each other.

    Example:
        >>> Anchoring(split=0.25, posterior_temperature=0.5).power
        1.5
    """

    s: float | None = None
    factor_variance: float | None = None
    split: float | None = None
    posterior_temperature: float = 1.0
    alpha: Callable[[float], float] = step_weight
    covariance: str | CovarianceRule = "linear"

    def __post_init__(self) -> None:
        instead = [name for name in ("factor_variance", "split") if getattr(self, name) is not None]
        if self.s is None and not instead:
            object.__setattr__(self, "s", DEFAULT_S)
        for name in instead:
            others = [n for n in ("s", *instead) if n != name and getattr(self, n) is not None]
            given = Phrase(
                f"both, with {others[0]} = {getattr(self, others[0])!r}" if others else ""
            )
            require(not others, name, "given alone, since it replaces `s`", given)
            for rule, plain in (("alpha", (step_weight,)), ("covariance", _LINEAR)):
                reason = f"left out with `{name}`, which has no s to apply it to"
                value = getattr(self, rule)
                shown = value if isinstance(value, str) else Phrase("a rule")
                require(value in plain, rule, reason, shown)
        if self.s is not None:
            require(is_number(self.s) and 0 <= self.s <= 1, "s", "in [0, 1]", self.s)
        if self.factor_variance is not None:
            good = is_number(self.factor_variance) and 0 < self.factor_variance < math.inf
            require(good, "factor_variance", "positive and finite", self.factor_variance)
        if self.split is not None:
            good = is_number(self.split) and 0 < self.split < 1
            require(good, "split", "in (0, 1)", self.split)
        heat = self.posterior_temperature
        good = is_number(heat) and 0 < heat < math.inf
        require(good, "posterior_temperature", "positive and finite", heat)
        _check_covariance(self.covariance)

    @property
    def is_point(self) -> bool:
        """Whether the prior is the anchor itself, so that there is nothing to sample."""
        return self.s == 0

    @property
    def curved(self) -> bool:
        """Whether the prior needs the Fisher information at the anchor."""
        return self.split is not None or (self.covariance == "laplace" and not self.is_point)

    @property
    def power(self) -> float:
        """The power of the likelihood."""
        share = 1.0 if self.split is None else 1.0 - float(self.split)
        return share / float(self.posterior_temperature)

    def check(self, anchors: Tensor, variance: Tensor, likelihood: Likelihood) -> None:
        """Refuse what shows only with the anchors, and without going through the data."""
        if self.curved:
            name, given = (
                ("covariance", "'laplace'") if self.split is None else ("split", self.split)
            )
            rule = "left out for a likelihood of your own, whose Fisher information is not known"
            require(has_information(likelihood), name, rule, Phrase(given))
        elif not self.is_point:
            self.prior(anchors[0], variance)

    def prior(
        self, anchor: Tensor, variance: Tensor, information: Tensor | None = None
    ) -> AnchoredPrior:
        """The prior around one anchor, tempered.

        Args:
            anchor: `(dim,)`.
            variance: V of the original prior, `(dim,)`.
            information: diagonal of the Fisher information, `(dim,)`, if the prior is curved.

        Returns:
            The prior.
        """
        if self.factor_variance is not None:
            prior = factor_prior(anchor, float(self.factor_variance), variance)
        elif self.split is not None:
            prior = split_prior(anchor, float(self.split), variance, self._seen(information))
        else:
            rule = self.covariance
            if isinstance(rule, str):
                rule = linear_variance if rule == "linear" else self._laplace(information)
            assert self.s is not None  # for the type checker; see __post_init__
            prior = anchored_prior(anchor, self.s, variance, alpha=self.alpha, covariance=rule)
        heat = float(self.posterior_temperature)
        return prior if heat == 1 else prior.tempered(heat)

    def describe(self) -> dict[str, Any]:
        """What the settings of a posterior say; options that were not used are left out."""
        plain: dict[str, Any] = {"s": None if self.s is None else float(self.s)}
        for name in ("factor_variance", "split"):
            if getattr(self, name) is not None:
                plain[name] = float(getattr(self, name))
        if self.posterior_temperature != 1:
            plain["posterior_temperature"] = float(self.posterior_temperature)
        if self.covariance == "laplace":
            plain["covariance"] = "laplace"
        return plain

    def _laplace(self, information: Tensor | None) -> CovarianceRule:
        seen = self._seen(information)
        return lambda s, variance: laplace_variance(s, variance, seen)

    def _seen(self, information: Tensor | None) -> Tensor:
        if information is None:
            raise RuntimeError("a curved prior was built before its information was computed")
        return information


_LINEAR = ("linear", linear_variance)


def _check_covariance(covariance: object) -> None:
    if isinstance(covariance, str) and covariance not in COVARIANCES:
        raise BadInput(
            f"`covariance` must be one of {', '.join(COVARIANCES)} or a rule, "
            f"but got {covariance!r}.{nearest(covariance, COVARIANCES)}"
        )
    good = isinstance(covariance, str) or callable(covariance)
    require(good, "covariance", "'linear', 'laplace' or a rule", covariance)


class Anchors(NamedTuple):
    """Where priors are anchored, and what it took to get there."""

    positions: Tensor  # (anchors, dim), in the model's own coordinates
    epochs: float


def resolve_anchors(
    model: nn.Module, anchors: Any, epochs: float | None, space: ParameterSpace, like: Tensor
) -> Anchors:
    """The anchors: the model's own weights, or those of the modules given.

    Args:
        model: the network that is evaluated.
        anchors: None, an ensemble or a list of modules.
        epochs: what they cost; as their training histories say if not given.
        space: the sampled parameters.
        like: a tensor with the dtype and the device of the result.

    Returns:
        The anchors.

    Raises:
        BadInput: no modules, other weights than the model has, one that differs from the model in
            what is not sampled, or a cost that is none.
    """
    modules, positions = [model], space.flatten(model).unsqueeze(0).to(like)
    if anchors is not None:
        words = "an ensemble or a list of modules"
        modules, positions = _members(anchors, "anchors", words, space, like)
        for index, member in enumerate(modules):
            _require_same_rest(model, member, index, space)
    if epochs is not None:
        good = is_number(epochs) and 0 <= epochs < math.inf
        require(good, "anchor_epochs", "a non-negative number", epochs)
        return Anchors(positions, float(epochs))
    # An ensemble has its members' histories, failed ones included; a trained module has its own.
    histories = getattr(anchors, "histories", [getattr(m, "history", None) for m in modules])
    found = [getattr(history, "epochs", 0) for history in histories]
    return Anchors(positions, float(sum(each for each in found if is_number(each))))


def resolve_start(start: Any, space: ParameterSpace, like: Tensor) -> Start:
    """Where particles begin, from what the user gave; `like` has the dtype and the device."""
    words = "'anchor', 'prior', an ensemble or a list of modules"
    if not isinstance(start, str):
        return StartAtMembers(_members(start, "start", words, space, like)[1])
    named = {"anchor": start_at_anchor, "prior": start_at_prior}
    if start not in named:
        raise BadInput(f"`start` must be {words}, but got {start!r}.{nearest(start, named)}")
    return named[start]


def _members(
    given: Any, argument: str, words: str, space: ParameterSpace, like: Tensor
) -> tuple[list[nn.Module], Tensor]:
    """The modules of an ensemble or a list, and their weights `(members, dim)`."""
    # A module may be iterable (Sequential), but its layers are not what is meant.
    several = isinstance(given, Iterable) and not isinstance(given, (str, nn.Sequential))
    models = list(given) if several else []
    good = bool(models) and all(isinstance(m, nn.Module) for m in models)
    shown = Phrase("no modules" if several and not models else type(given).__name__)
    require(good, argument, words, shown)
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
    """One network evaluates all islands: what is not sampled has to be the same in all anchors."""
    own = named_tensors(model)
    for name, value in named_tensors(member).items():
        # BatchNorm's count of training batches has no part in predictions.
        counter = name.rpartition(".")[2] == "num_batches_tracked"
        if name in space.names or name not in own or counter:
            continue
        here = own[name]
        same = here.shape == value.shape and torch.equal(here, value.to(here))
        rule = "modules that equal `model` in all that is not sampled"
        require(same, "anchors", rule, Phrase(f"another {name} at {index}"))
