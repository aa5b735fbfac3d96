"""Distribution functions of torch's distributions, for those that torch has none for as well.

torch has no CDF for Student's t, the beta distribution and counts. They are written with the
incomplete beta and gamma functions of scipy, in float64 and on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributions import (
    Bernoulli,
    Beta,
    Binomial,
    Distribution,
    Geometric,
    NegativeBinomial,
    Normal,
    Poisson,
    StudentT,
)

from sbmc.checks import BadInput
from sbmc.prediction.elementwise import Viewed


class NoDistributionFunction(BadInput):
    """Neither torch nor this module has the CDF of a distribution."""

    def __init__(self, distribution: str) -> None:
        rule = "one whose distribution function is known"
        super().__init__(f"`likelihood` must be {rule}, but got {distribution}.")


def is_discrete(distribution: Distribution) -> bool:
    """Whether the values are integers."""
    support: Any = distribution.support
    return bool(getattr(support, "is_discrete", False))


def cdf(distribution: Distribution, values: Tensor) -> Tensor:
    """P(Y ≤ value) of univariate distributions.

    Args:
        distribution: with the batch shape `(particles, ...)`.
        values: of a shape that broadcasts with it.

    Returns:
        Probabilities from 0 to 1, float64.

    Raises:
        NoDistributionFunction: there is none.

    Examples:
        >>> cdf(StudentT(torch.tensor(1.0)), torch.tensor(1.0)).item()  # a Cauchy distribution
        0.75
    """
    if isinstance(distribution, Viewed):
        base = distribution.base
        return distribution.of_base(lambda each: cdf(base, each), values.double())
    for family, own in _CDFS.items():
        if isinstance(distribution, family):
            return own(distribution, values.double())
    # Outside of its support torch refuses a value or gives NaN; at the bound F is 0 or 1.
    bounds = [getattr(distribution.support, f"{end}_bound", None) for end in ("lower", "upper")]
    inside = values.double() if bounds == [None, None] else values.double().clamp(*bounds)
    try:
        return _unchecked(distribution).cdf(inside).clamp(0.0, 1.0)
    except NotImplementedError:
        raise NoDistributionFunction(type(distribution).__name__) from None


def component_quantiles(distribution: Distribution, level: float) -> Tensor | None:
    """The quantiles of univariate continuous distributions; None if they have no closed form.

    Args:
        distribution: with any batch shape.
        level: between 0 and 1.

    Returns:
        Float64, of the batch shape.
    """
    if isinstance(distribution, Viewed):
        found = component_quantiles(distribution.base, level)
        return None if found is None else found.reshape(distribution.batch_shape)
    if isinstance(distribution, StudentT):
        standard = _by_scipy("stdtrit", distribution.df, torch.full_like(distribution.df, level))
        return distribution.loc.double() + distribution.scale.double() * standard
    if isinstance(distribution, Normal):
        standard = torch.special.ndtri(torch.tensor(level, dtype=torch.float64))
        return distribution.loc.double() + distribution.scale.double() * standard.item()
    try:
        levels = torch.full(distribution.batch_shape, level, dtype=torch.float64)
        return distribution.icdf(levels).double()
    except NotImplementedError:
        return None


def _unchecked(distribution: Distribution) -> Distribution:
    if not distribution._validate_args:
        return distribution
    copy = distribution.expand(distribution.batch_shape)
    copy._validate_args = False
    return copy


def _by_scipy(function: str, *arguments: Tensor) -> Tensor:
    from scipy import special  # takes a while to import, and Gaussians do without it

    arrays = (each.detach().cpu().double().numpy() for each in arguments)
    return torch.as_tensor(getattr(special, function)(*arrays), device=arguments[0].device)


def _normal(normal: Any, values: Tensor) -> Tensor:
    return torch.special.ndtr((values - normal.loc.double()) / normal.scale.double())


def _student_t(student: Any, values: Tensor) -> Tensor:
    standard = (values - student.loc.double()) / student.scale.double()
    return _by_scipy("stdtr", student.df, standard)


def _beta(beta: Any, values: Tensor) -> Tensor:
    inside = values.clamp(0.0, 1.0)
    return _by_scipy("betainc", beta.concentration1, beta.concentration0, inside)


def _of_counts(upper_tail: Callable[[Any, Tensor], Tensor]) -> Callable[[Any, Tensor], Tensor]:
    """A CDF that is 0 below 0 and constant between integers, from its values at integers."""

    def function(distribution: Any, values: Tensor) -> Tensor:
        count = values.floor()
        at_integers = upper_tail(distribution, count.clamp(min=0.0))
        return torch.where(count < 0, torch.zeros_like(at_integers), at_integers)

    return function


def _poisson(poisson: Any, count: Tensor) -> Tensor:
    return _by_scipy("pdtr", count, poisson.rate)


def _negative_binomial(counts: Any, count: Tensor) -> Tensor:
    # torch counts successes of probability p before the r-th failure: F(k) = I_{1−p}(r, k + 1).
    failure = torch.sigmoid(-counts.logits.double())
    return _by_scipy("betainc", counts.total_count, count + 1, failure)


def _binomial(counts: Any, count: Tensor) -> Tensor:
    trials = counts.total_count.double()
    rest = (trials - count).clamp(min=0.0)
    below = _by_scipy("betainc", rest.clamp(min=1e-300), count + 1, 1 - counts.probs.double())
    return torch.where(rest > 0, below, torch.ones_like(below))


def _bernoulli(label: Any, count: Tensor) -> Tensor:
    return torch.where(count >= 1, 1.0, 1 - label.probs.double())


def _geometric(counts: Any, count: Tensor) -> Tensor:
    return -torch.expm1((count + 1) * torch.log1p(-counts.probs.double()))


_CDFS: dict[type[Distribution], Callable[[Any, Tensor], Tensor]] = {
    Normal: _normal,
    StudentT: _student_t,
    Beta: _beta,
    Poisson: _of_counts(_poisson),
    NegativeBinomial: _of_counts(_negative_binomial),
    Binomial: _of_counts(_binomial),
    Bernoulli: _of_counts(_bernoulli),
    Geometric: _of_counts(_geometric),
}
