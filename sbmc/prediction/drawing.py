"""Draws from torch's distributions by a generator of one's own.

`Distribution.sample` takes its numbers from torch's global generator, which nothing in this package
touches. The distributions of our likelihoods are therefore drawn from here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import (
    Bernoulli,
    Categorical,
    Distribution,
    NegativeBinomial,
    Normal,
    Poisson,
    StudentT,
)

from sbmc.prediction.elementwise import Viewed, elementwise


def draw(distribution: Distribution, rng: torch.Generator) -> Tensor:
    """One draw from each distribution of a batch.

    A distribution that is not in the table below, such as one of a user's likelihood, draws from
    torch's global generator, which is seeded by `rng` and then put back to where it was.

    Args:
        distribution: with any batch and event shape.
        rng: a generator on the CPU.

    Returns:
        Values of the shape of the batch and the event.

    Examples:
        >>> rng = torch.Generator().manual_seed(0)
        >>> draw(Poisson(torch.full((1000,), 3.0)), rng).mean().round().item()
        3.0
    """
    distribution = elementwise(distribution)
    if isinstance(distribution, Viewed):
        return draw(distribution.base, rng).reshape(distribution.batch_shape)
    for family, own in _DRAWS.items():
        if isinstance(distribution, family):
            return own(distribution, rng)
    seed = int(torch.randint(2**62, (), generator=rng))
    devices = [distribution.mean.device] if distribution.mean.is_cuda else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        return distribution.sample()


def _normals(like: Tensor, rng: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=rng, dtype=like.dtype).to(like.device)


def _gammas(shape: Tensor, rng: torch.Generator) -> Tensor:
    return torch._standard_gamma(shape.cpu().contiguous(), generator=rng).to(shape.device)


def _poissons(rate: Tensor, rng: torch.Generator) -> Tensor:
    return torch.poisson(rate.cpu(), generator=rng).to(rate.device)


def _normal(normal: Any, rng: torch.Generator) -> Tensor:
    return normal.loc + normal.scale * _normals(normal.loc, rng)


def _student_t(student: Any, rng: torch.Generator) -> Tensor:
    # A normal number over the root of a chi-squared one, per degree of freedom.
    half = student.df / 2
    chi_squared = _gammas(half, rng) / half
    return student.loc + student.scale * _normals(student.loc, rng) / chi_squared.sqrt()


def _poisson(poisson: Any, rng: torch.Generator) -> Tensor:
    return _poissons(poisson.rate, rng)


def _negative_binomial(counts: Any, rng: torch.Generator) -> Tensor:
    # A Poisson number whose rate has a gamma distribution, of scale p / (1 − p).
    return _poissons(_gammas(counts.total_count, rng) * counts.logits.exp(), rng)


def _bernoulli(label: Any, rng: torch.Generator) -> Tensor:
    return torch.bernoulli(label.probs.cpu(), generator=rng).to(label.probs.device)


def _categorical(label: Any, rng: torch.Generator) -> Tensor:
    rows = label.probs.flatten(0, -2).cpu()
    drawn = torch.multinomial(rows, 1, generator=rng)
    return drawn.view(label.batch_shape).to(label.probs.device)


_DRAWS = {
    Normal: _normal,
    StudentT: _student_t,
    Poisson: _poisson,
    NegativeBinomial: _negative_binomial,
    Bernoulli: _bernoulli,
    Categorical: _categorical,
}
