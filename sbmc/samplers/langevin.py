"""One step of Langevin dynamics in whitened coordinates, on all data or on mini-batches.

With U(z) = ‖z‖²/2 − ℓ(z), a momentum p and a friction γ, a step of size ε is

    p ← p − ε/2 ∇U(z),   z ← z + ε/2 p,   p ← e^(−γε) p + sqrt(1 − e^(−2γε)) ξ,   z ← z + ε/2 p,
    p ← p − ε/2 ∇U(z),                                                            ξ ~ N(0, I),

the splitting that Leimkuhler and Matthews (2013) call BAOAB. It takes one evaluation, since the
last gradient is the first of the next step. No step is rejected. On a Gaussian target with the
gradient of all data the positions have exactly the right variance at any stable step size, ε² times
the largest precision below 4; and so have the momenta between two half kicks, which is where their
temperature is read. Whatever heat is found there comes from the noise of mini-batches, from
curvature that changes, or from a step size that is not stable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from sbmc.samplers.noise import IslandNoise
from sbmc.target.target import Evaluation


class LangevinState(NamedTuple):
    """What the next step needs; the leading axis of every field is the particle."""

    position: Tensor  # (particles, dim), whitened
    momentum: Tensor  # (particles, dim)
    log_likelihood: Tensor  # (particles,) float64
    gradient: Tensor  # (particles, dim), of the log likelihood


class LangevinInfo(NamedTuple):
    """What a step has to tell; the leading axis is the particle."""

    before_noise: Tensor  # (particles, dim): the momentum between the half kicks, before the noise
    after_noise: Tensor  # (particles, dim): and after it
    non_finite: Tensor  # (particles,) bool: momenta or log likelihoods that are not finite any more


def init(
    rng: IslandNoise, position: Tensor, evaluate: Callable[[Tensor], Evaluation]
) -> LangevinState:
    """The state at `position` `(particles, dim)`, with a momentum from N(0, I); one evaluation."""
    momentum = rng.normal(position.shape[1], position.dtype)
    return LangevinState(position.clone(), momentum, *evaluate(position))


def step(
    rng: IslandNoise,
    state: LangevinState,
    evaluate: Callable[[Tensor], Evaluation],
    *,
    step_size: Tensor,
    friction: Tensor | float,
) -> tuple[LangevinState, LangevinInfo]:
    """One step for every particle.

    Args:
        rng: ξ is drawn for each particle.
        state: where the particles are.
        evaluate: log likelihood and gradient, of all data or estimated from mini-batches.
        step_size: ε, `(particles,)`.
        friction: γ, a number or `(particles,)`.

    Returns:
        The new state and what there is to tell. Values that are not finite are passed on.
    """
    dtype = state.position.dtype
    ε = step_size.to(dtype).unsqueeze(-1)
    time = step_size.double() * friction
    keep = torch.exp(-time).to(dtype).unsqueeze(-1)
    renew = torch.sqrt(-torch.expm1(-2 * time)).to(dtype).unsqueeze(-1)
    # Each line writes over the one temporary result that it has: p + ε/2 (∇U − z), and so on.
    before = (state.gradient - state.position).mul_(ε / 2).add_(state.momentum)
    after = rng.normal(state.position.shape[1], dtype).mul_(renew).add_(keep * before)
    position = (before + after).mul_(ε / 2).add_(state.position)
    here = evaluate(position)
    momentum = (here.gradient - position).mul_(ε / 2).add_(after)
    # The sum is not finite if a momentum is not, and takes a tenth of the time of looking at each.
    finite = torch.isfinite(momentum.sum(-1)) & torch.isfinite(here.log_likelihood)
    return LangevinState(position, momentum, *here), LangevinInfo(before, after, ~finite)


def energy(state: LangevinState) -> Tensor:
    """U(z) + ‖p‖²/2 of each particle, float64."""
    squares = state.position.double().square().sum(-1) + state.momentum.double().square().sum(-1)
    return squares / 2 - state.log_likelihood


def energy_error(before: LangevinState, after: LangevinState, info: LangevinInfo) -> Tensor:
    """How far a step on all data has missed the energy, apart from what the noise brought in.

    Args:
        before: the state that the step began with.
        after: the state that it came to.
        info: what the step told.

    Returns:
        The error of each particle, `(particles,)` float64. Without friction it is of third order in
        the step size.
    """
    taken = info.after_noise.double().square().sum(-1) - info.before_noise.double().square().sum(-1)
    return energy(after) - energy(before) - taken / 2
