"""`sbmc.Prior`: rarer forms of the prior, and the temperature of the posterior."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor

from sbmc.checks import (
    Phrase,
    describe_value,
    is_number,
    require,
    require_choice,
)
from sbmc.prior.gaussian import linear_variance, step_weight

COVARIANCES = ("linear", "laplace")

CovarianceRule = Callable[[float, Tensor], Tensor]

_LINEAR = ("linear", linear_variance)


def changed_options(options: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults.

    Args:
        options: a dataclass whose fields all have defaults.

    Returns:
        Their values by name, in the order of the fields.

    Examples:
        >>> changed_options(Prior(split=0.25))
        {'split': 0.25}
    """
    values = {item.name: (getattr(options, item.name), item.default) for item in fields(options)}
    return {
        name: value
        for name, (value, default) in values.items()
        if not (value is default or (isinstance(value, type(default)) and value == default))
    }


@dataclass(frozen=True, kw_only=True, repr=False)
class Prior:
    """The form of the prior around the anchor, and the temperature of the posterior.

    Without any of these, the prior is N(α(s)·anchor, s·v), with the step α(s).

    Args:
        alpha: the rule α(s).
        covariance: the rule Σ(s): `"linear"`, s·v; `"laplace"`, s·v / (1 + (1 − s)·v·F) with F the
            diagonal of the Fisher information at the anchor; or a function of s and the prior
            variances `(dim,)`.
        factor_variance: f > 0, instead of `s`: the prior is N(0, v)·N(anchor, f).
        split: a in (0, 1), instead of `s`: the prior is the diagonal Laplace approximation
            N(anchor, (a·F + a/v)⁻¹) of the fraction a of the likelihood with the prior
            N(0, v/a), and what is sampled is the rest of the likelihood, to the power 1 − a.
        posterior_temperature: T > 0: below 1 a cold posterior, whose prior has T times the variance
            and whose likelihood has the power 1/T.

    Raises:
        BadInput: a value breaks its rule, or two options exclude each other.

    Examples:
        >>> Prior(covariance="laplace", posterior_temperature=0.5)
        Prior(covariance='laplace', posterior_temperature=0.5)
        >>> Prior(split=2)
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `split` must be in (0, 1), but got 2.
    """

    alpha: Callable[[float], float] = step_weight
    covariance: str | CovarianceRule = "linear"
    factor_variance: float | None = None
    split: float | None = None
    posterior_temperature: float = 1.0

    def __post_init__(self) -> None:
        require(callable(self.alpha), "alpha", "a rule, a function of s", self.alpha)
        _check_covariance(self.covariance)
        for name in self.instead_of_s:
            self._require_alone(name)
        if self.factor_variance is not None:
            good = is_number(self.factor_variance) and 0 < self.factor_variance < math.inf
            require(good, "factor_variance", "positive and finite", self.factor_variance)
        if self.split is not None:
            good = is_number(self.split) and 0 < self.split < 1
            require(good, "split", "in (0, 1)", self.split)
        temperature = self.posterior_temperature
        good = is_number(temperature) and 0 < temperature < math.inf
        require(good, "posterior_temperature", "positive and finite", temperature)

    def __repr__(self) -> str:
        """The options that differ from the defaults."""
        shown = ", ".join(f"{name}={value!r}" for name, value in changed_options(self).items())
        return f"Prior({shown})"

    @property
    def instead_of_s(self) -> list[str]:
        """Names of the given options that replace `s`."""
        return [name for name in ("factor_variance", "split") if getattr(self, name) is not None]

    def _require_alone(self, name: str) -> None:
        others = [other for other in self.instead_of_s if other != name]
        both = Phrase(
            f"both, with {others[0]} = {describe_value(getattr(self, others[0]))}" if others else ""
        )
        require(not others, name, "given alone, since it replaces `s`", both)
        for rule, plain in (("alpha", (step_weight,)), ("covariance", _LINEAR)):
            reason = f"left out with `{name}`, which has no s to apply it to"
            value = getattr(self, rule)
            shown = value if isinstance(value, str) else Phrase("a rule")
            require(value in plain, rule, reason, shown)


def _check_covariance(covariance: object) -> None:
    if not callable(covariance) or isinstance(covariance, type):
        require_choice("covariance", covariance, COVARIANCES, "'linear', 'laplace' or a rule")


USUAL_PRIOR = Prior()
