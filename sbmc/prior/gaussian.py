"""The anchored Gaussian prior, and the whitened coordinates in which every sampler works.

The paper's equation (2): the prior N(0, V) is replaced by N(α(s)·anchor, Σ(s)), with Σ(0) = 0,
Σ(1) = V, α(0) = 1 and α(1) = 0. At s = 0 it is the anchor itself, at s = 1 the original prior. A
prior N(c, V) with another centre, which gains of normalisation layers need, leads to the mean
α(s)·anchor + (1 − α(s))·c in the same way. With

    θ = α(s)·anchor + (1 − α(s))·c + Σ(s)^½ z

the anchored prior is N(0, I) in z, whatever s, V, c and the anchor are. Two other priors around an
anchor have the same form: the product with a Gaussian factor, and a Laplace approximation of a part
of the likelihood.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from sbmc.checks import BadInput, describe_value, is_finite, is_number, require
from sbmc.model.parameters import ParameterSpace
from sbmc.storage.arrays import require_plain

# A number, a value per pattern on names, or a value per parameter (flat, or by name).
Variance = float | Mapping[str, float | Tensor] | Tensor


def step_weight(s: float) -> float:
    """The paper's α(s): 1 for s < 1/2, else 0."""
    return 1.0 if s < 0.5 else 0.0


def linear_variance(s: float, variance: Tensor) -> Tensor:
    """The paper's Σ(s) = s·V."""
    return s * variance


def laplace_variance(s: float, variance: Tensor, information: Tensor) -> Tensor:
    """Σ(s) = s·V / (1 + (1 − s)·V·F), with F the diagonal of the Fisher information at the anchor.

    Σ(1) = V, and as s → 0 it is s times the covariance (F + 1/V)⁻¹ of the diagonal Laplace
    approximation: directions that the data have settled are kept narrower than the others.

    Args:
        s: the scale.
        variance: V, `(dim,)`.
        information: F, `(dim,)`, not negative.

    Returns:
        The variances, `(dim,)`.

    Examples:
        >>> laplace_variance(0.5, torch.tensor([1.0, 1.0]), torch.tensor([0.0, 6.0]))
        tensor([0.5000, 0.1250])
    """
    return s * variance / (1 + (1 - s) * variance * information)


@dataclass(frozen=True)
class AnchoredPrior:
    """A Gaussian with diagonal covariance, N(α(s)·anchor, Σ(s)) in the paper, and its coordinates.

    Args:
        mean: α(s)·anchor + (1 − α(s))·centre, `(dim,)`.
        scale: the standard deviations Σ(s)^½, `(dim,)`.
        anchor: the anchor, `(dim,)`.
    """

    mean: Tensor
    scale: Tensor
    anchor: Tensor

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.mean)

    def to_parameters(self, positions: Tensor) -> Tensor:
        """θ for whitened positions z `(..., dim)`."""
        return torch.addcmul(self.mean, self.scale, positions)

    def to_whitened(self, theta: Tensor) -> Tensor:
        """The positions z whose parameters are θ `(..., dim)`."""
        return (theta - self.mean) / self.scale

    def tempered(self, temperature: float) -> AnchoredPrior:
        """The prior to the power 1/T: the same mean, and T times the variances."""
        return replace(self, scale=math.sqrt(temperature) * self.scale)

    def sample(self, count: int, rng: torch.Generator) -> Tensor:
        """Whitened draws `(count, dim)` from the prior."""
        noise = torch.randn(count, self.dim, generator=rng, dtype=self.mean.dtype)
        return noise.to(self.mean.device)


def anchored_prior(
    anchor: Tensor,
    s: float,
    variance: Tensor,
    *,
    alpha: Callable[[float], float] = step_weight,
    covariance: Callable[[float, Tensor], Tensor] = linear_variance,
    centre: Tensor | None = None,
) -> AnchoredPrior:
    """Build the anchored prior for a scale s in (0, 1].

    Args:
        anchor: the point estimate, `(dim,)`.
        s: 0 < s <= 1. (s = 0 is the Dirac at the anchor, which needs no prior: see `fit`.)
        variance: the original prior's variance V, `(dim,)`.
        alpha: the rule α(s); the paper's by default.
        covariance: the rule Σ(s) as a function of s and V, `(dim,)`; the paper's by default.
        centre: of the original prior, `(dim,)`; None for 0, as in the paper.

    Returns:
        The prior.

    Raises:
        BadInput: s outside (0, 1], or a rule whose values are not usable.

    Examples:
        >>> prior = anchored_prior(torch.ones(3), 0.25, torch.full((3,), 4.0))
        >>> prior.to_parameters(torch.tensor([0.0, 1.0, -1.0]))
        tensor([1., 2., 0.])
        >>> anchored_prior(torch.ones(2), 1.0, torch.ones(2), centre=torch.tensor([0.0, 3.0])).mean
        tensor([0., 3.])
    """
    require(is_number(s) and 0 < s <= 1, "s", "in (0, 1] for a prior that can be sampled", s)
    weight: Any = _rule_value("alpha", alpha, s)
    require(is_finite(weight), "alpha", "a rule with finite values", weight)
    found = _rule_value("covariance", covariance, s, variance)
    numeric = is_number(found) or (isinstance(found, Tensor) and not found.is_complex())
    require(numeric, "covariance", "a rule that returns a tensor or a number", found)
    diagonal = torch.as_tensor(found, dtype=anchor.dtype, device=anchor.device)
    rule = f"a rule with one variance for each of the {len(anchor)} parameters"
    fits = diagonal.ndim == 0 or diagonal.shape == anchor.shape
    require(fits, "covariance", rule, tuple(diagonal.shape))
    diagonal = diagonal.expand_as(anchor)
    if covariance is linear_variance:
        rule = f"such that s times the prior variance is a positive number of {anchor.dtype}"
        _require_positive(diagonal, "s", rule)
    _require_positive(diagonal, "covariance", "a rule with positive, finite variances")
    mean = _between(float(weight), anchor, centre)
    return AnchoredPrior(mean, diagonal.sqrt().contiguous(), anchor)


def _between(weight: float | Tensor, anchor: Tensor, centre: Tensor | None) -> Tensor:
    """weight·anchor + (1 − weight)·centre."""
    return weight * anchor if centre is None else weight * anchor + (1 - weight) * centre


def factor_prior(
    anchor: Tensor, factor_variance: float, variance: Tensor, centre: Tensor | None = None
) -> AnchoredPrior:
    """The original prior times a Gaussian factor around the anchor (Paulin et al., 2025).

        N(c, V)·N(anchor, f)  ∝  N((V·anchor + f·c)/(f + V), V·f/(V + f))

    As f → 0 it is the anchor, as f → ∞ the original prior. It is centred between c and the
    anchor, where `anchored_prior` is centred on the anchor itself.

    Args:
        anchor: the point estimate, `(dim,)`.
        factor_variance: f > 0.
        variance: the original prior's variance V, `(dim,)`.
        centre: c, `(dim,)`; None for 0.

    Returns:
        The prior.

    Raises:
        BadInput: an f that is not positive and finite.

    Examples:
        >>> prior = factor_prior(torch.ones(1), 1.0, torch.tensor([3.0]))
        >>> prior.mean, prior.scale.square()
        (tensor([0.7500]), tensor([0.7500]))
    """
    good = is_number(factor_variance) and 0 < factor_variance < math.inf
    require(good, "factor_variance", "positive and finite", factor_variance)
    share = variance / (factor_variance + variance)
    mean = _between(share, anchor, centre)
    return AnchoredPrior(mean, (share * factor_variance).sqrt(), anchor)


def split_prior(
    anchor: Tensor, split: float, variance: Tensor, information: Tensor
) -> AnchoredPrior:
    """The diagonal Laplace approximation of a fraction a of the likelihood (appendices B and C).

        L(θ)^a · N(θ; 0, V/a)  ≈  N(anchor, (a·F + a/V)⁻¹)

    with F the diagonal of the Fisher information at the anchor. Its log is a times that of the
    posterior with the prior N(0, V), so that both have one mode: the anchor, if it is the MAP. The
    rest of the likelihood, L^{1−a}, is left to be sampled.

    Args:
        anchor: the point estimate, `(dim,)`.
        split: a, 0 < a < 1.
        variance: V, `(dim,)`.
        information: F, `(dim,)`, not negative.

    Returns:
        The prior.

    Raises:
        BadInput: a fraction outside (0, 1).

    Examples:
        >>> prior = split_prior(torch.ones(1), 0.5, torch.tensor([1.0]), torch.tensor([7.0]))
        >>> prior.mean, prior.scale.square()
        (tensor([1.]), tensor([0.2500]))
    """
    require(is_number(split) and 0 < split < 1, "split", "in (0, 1)", split)
    # Paper: the Hessian a·∇²ℓ + 1/(2(v/a)). Here: a·F + a/v, because the Hessian of
    # −log N(0, v/a) is a/v; and F for ∇²ℓ, because F is never negative.
    precision = split * (information + 1 / variance)
    return AnchoredPrior(anchor, precision.rsqrt(), anchor)


def _rule_value(name: str, rule: Callable[..., Any], *arguments: Any) -> Any:
    """What a user's rule gives."""
    try:
        value = rule(*arguments)
    except Exception as error:
        shown = f"{describe_value(rule)}, which fails for s = {arguments[0]:g}"
        takes = "s" if len(arguments) == 1 else "s and the variances"
        raise BadInput(f"`{name}` must be a function of {takes}, but got {shown}.") from error
    # Numbers of other libraries are as good.
    one = isinstance(value, Tensor) and value.ndim == 0
    return float(value) if len(arguments) == 1 and one else value


def _require_positive(values: Tensor, name: str, rule: str) -> None:
    bad = values[~(torch.isfinite(values) & (values > 0))]
    require(len(bad) == 0, name, rule, float(bad[0]) if len(bad) else None)


def resolve_variance(variance: Variance, space: ParameterSpace, dtype: torch.dtype) -> Tensor:
    """A prior variance per parameter, `(dim,)`.

    Args:
        variance: one positive number; a mapping from patterns to numbers or tensors; or a tensor
            `(dim,)`. A pattern is a parameter's name, or else a regular expression searched for in
            the names, of which the first that is found holds. Every sampled parameter needs one,
            and every pattern a parameter.
        space: the sampled parameters.
        dtype: of the result.

    Returns:
        The variances.

    Raises:
        BadInput: not positive, not finite, of the wrong length, a parameter without a variance, or
            a pattern without a parameter.

    Examples:
        >>> space = ParameterSpace(("a.weight", "a.bias"), (torch.Size([2]), torch.Size([1])))
        >>> resolve_variance({"weight": 0.1, "bias": 1.0}, space, torch.float64)
        tensor([0.1000, 0.1000, 1.0000], dtype=torch.float64)
    """
    if isinstance(variance, Mapping):
        require_used(variance, space)
        parts = [
            _filled(value_for_name(variance, name), shape, name, dtype).reshape(-1)
            for name, shape in zip(space.names, space.shapes, strict=True)
        ]
        values = torch.cat(parts)
    elif isinstance(variance, Tensor) and variance.ndim == 1:
        require_plain(variance, "prior_variance")
        length = f"of length {space.dim}"
        require(len(variance) == space.dim, "prior_variance", length, len(variance))
        values = variance.detach().to(dtype)
    else:
        number = is_number(variance) or (isinstance(variance, Tensor) and variance.ndim == 0)
        rule = f"a number, a mapping or a tensor ({space.dim},)"
        require(number, "prior_variance", rule, variance)
        _require_within(float(variance), dtype)
        values = torch.full((space.dim,), float(variance), dtype=dtype)
    _require_positive(values, "prior_variance", "positive and finite")
    return values


def _require_within(variance: float, dtype: torch.dtype) -> None:
    """Refuse a number that is no positive one in a precision."""
    good = 0 < variance < math.inf
    require(good, "prior_variance", "positive and finite", variance)
    largest = torch.finfo(dtype).max
    rule = f"at most {largest:.3g}, the largest number of {dtype}"
    require(variance <= largest, "prior_variance", rule, variance)


def _finds(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except (re.error, TypeError) as error:
        raise BadInput(
            f"`prior_variance` must have names or regular expressions as keys, "
            f"but got {describe_value(pattern)} ({error})."
        ) from None


def require_used(variance: Mapping[str, Any], space: ParameterSpace) -> None:
    """Refuse a pattern that matches no parameter, since it is probably mistyped."""
    for pattern in variance:
        rule = f"a mapping whose patterns each match a sampled parameter (of {list(space.names)})"
        used = any(_finds(pattern, name) for name in space.names)
        require(used, "prior_variance", rule, pattern)


def value_for_name(variance: Mapping[str, Any], name: str) -> Any:
    """The value whose pattern is the name, or else is the first that is found in it."""
    # The name itself first: as a regular expression, "1.weight" is found in "11.weight" too.
    if name in variance:
        return variance[name]
    for pattern, value in variance.items():
        if _finds(pattern, name):
            return value
    raise BadInput(
        f"`prior_variance` must have a pattern for every sampled parameter, "
        f"but got {list(variance)}, none of which matches {name!r}."
    )


def _filled(value: float | Tensor, shape: torch.Size, name: str, dtype: torch.dtype) -> Tensor:
    good = is_number(value) or isinstance(value, Tensor)
    require(good, "prior_variance", f"a number or a tensor for {name!r}", value)
    if not isinstance(value, Tensor):
        _require_within(float(value), dtype)
    tensor = torch.as_tensor(value, dtype=dtype)
    fits = tensor.ndim == 0 or tensor.shape == shape
    require(fits, "prior_variance", f"of shape {tuple(shape)} for {name!r}", tuple(tensor.shape))
    return tensor.expand(shape)
