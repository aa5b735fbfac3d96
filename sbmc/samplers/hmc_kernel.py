"""The step of Hamiltonian Monte Carlo in whitened coordinates, for a batch of particles.

With the anchored prior N(0, I), the target at temperature λ is

    log π(z) = λ·ℓ(z) − ‖z‖²/2,

and a step draws a momentum p ~ N(0, I), follows L leapfrog steps of size ε of the flow of
H(z, p) = −log π(z) + ‖p‖²/2, and accepts the end point with probability min(1, exp(−ΔH)), which
leaves π invariant. For a flat likelihood the flow is a rotation with period 2π: a trajectory of
length π/2 makes every direction that the data leave free independent of its past.

A leapfrog step is half a kick, a drift, half a kick:

    p ← p + ε/2 (λ ∇ℓ(z) − z),   z ← z + ε p,   p ← p + ε/2 (λ ∇ℓ(z) − z).

With `splitting` the kicks are the likelihood's alone, and between them the prior's own flow is
followed exactly, by a rotation instead of a drift:

    p ← p + ε/2 λ ∇ℓ(z),   (z, p) ← (z cos ε + p sin ε, p cos ε − z sin ε),   p ← p + ε/2 λ ∇ℓ(z).

Both are reversible, keep volume, and are exact to second order in ε; the second is exact where the
likelihood is flat, whatever ε is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from sbmc.samplers import lowrank
from sbmc.samplers.metropolis import MetropolisInfo, metropolis_test
from sbmc.samplers.noise import IslandNoise
from sbmc.target.target import Evaluation, Target


class HMCState(NamedTuple):
    """What the next step needs; the leading axis of every field is the particle.

    The likelihood's value and gradient are kept apart from the prior's, so that a change of
    temperature costs no evaluation.
    """

    position: Tensor  # (particles, dim), whitened
    log_likelihood: Tensor  # (particles,) float64
    gradient: Tensor  # (particles, dim), of the log likelihood
    directions: Tensor  # (particles, dim, rank), of the preconditioner
    stretch: Tensor  # (particles, rank)


def init(
    position: Tensor, target: Target, rng: IslandNoise | None = None, rank: int = 0
) -> HMCState:
    """The state at `position`.

    Args:
        position: `(particles, dim)`, whitened.
        target: log likelihood and gradient.
        rng: for the preconditioner, if there is one.
        rank: the number of stiff directions to precondition.

    Returns:
        The state. It costs `1 + 2 * rank` evaluations for each particle.
    """
    evaluation = target(position)
    if rank == 0 or rng is None:
        return HMCState(position.clone(), *evaluation, *lowrank.identity(position))
    return HMCState(
        position.clone(), *evaluation, *lowrank.estimate(rng, position, evaluation, target, rank)
    )


def step(
    rng: IslandNoise,
    state: HMCState,
    target: Target,
    *,
    step_size: Tensor,
    leapfrog: Tensor,
    temperature: float | Tensor = 1.0,
    launching: Tensor | None = None,
    splitting: bool = False,
) -> tuple[HMCState, MetropolisInfo]:
    """One HMC step for every particle.

    Args:
        rng: a momentum and a uniform number are drawn for each particle.
        state: where the particles are.
        target: log likelihood and gradient.
        step_size: ε, `(particles,)`.
        leapfrog: L, `(particles,)` integers, at least 1. Particles that have made theirs rest and
            cost nothing more.
        temperature: λ, a number or `(particles,)`.
        launching: `(particles,)` bool: particles that are launched, which skip the Metropolis
            test, for warm-up only. One stays where it is if its energy error is larger than the
            kinetic energy that its trajectory began with, since then the integrator was unstable,
            and the end point may be anywhere.
        splitting: rotate where leapfrog drifts. The state must not be preconditioned.

    Returns:
        The new state and the info. A proposal that is not finite is rejected.
    """
    temperatures = torch.as_tensor(temperature, dtype=torch.float64, device=state.position.device)
    momentum = rng.normal(state.position.shape[1], state.position.dtype)
    uniform = rng.uniform()
    kinetic = momentum.double().square().sum(-1) / 2
    start = hamiltonian(state, momentum, temperatures)
    proposal, momentum = trajectory(
        state, momentum, target, step_size, leapfrog, temperatures, splitting=splitting
    )
    difference = start - hamiltonian(proposal, momentum, temperatures)
    info = metropolis_test(difference, uniform)
    if launching is not None:
        sound = ~info.non_finite & (difference >= -kinetic)
        info = info._replace(accepted=torch.where(launching, sound, info.accepted))
    accepted = info.accepted
    rows = accepted.unsqueeze(-1)
    merged = state._replace(
        position=torch.where(rows, proposal.position, state.position),
        log_likelihood=torch.where(accepted, proposal.log_likelihood, state.log_likelihood),
        gradient=torch.where(rows, proposal.gradient, state.gradient),
    )
    return merged, info


def hamiltonian(state: Any, momentum: Tensor, temperature: Tensor) -> Tensor:
    """H(z, p) of each particle, float64, for a state with `position` and `log_likelihood`."""
    kinetic = momentum.double().square().sum(-1) / 2
    prior = state.position.double().square().sum(-1) / 2
    return kinetic + prior - temperature * state.log_likelihood


def trajectory(
    state: HMCState,
    momentum: Tensor,
    target: Target,
    step_size: Tensor,
    leapfrog: Tensor,
    temperature: Tensor,
    *,
    splitting: bool = False,
) -> tuple[HMCState, Tensor]:
    """Follow the flow from `state` for `leapfrog` steps.

    The momentum is that of the preconditioned coordinates u = B⁻¹ z, in which kicks are B·force and
    a drift by p moves z by B·p.

    Args:
        state: where the particles are.
        momentum: p, `(particles, dim)`.
        target: log likelihood and gradient.
        step_size: ε, `(particles,)`.
        leapfrog: L, `(particles,)`.
        temperature: λ, a number or `(particles,)`, float64.
        splitting: rotate where leapfrog drifts.

    Returns:
        The state at the end, and the momentum there.
    """
    preconditioner = lowrank.LowRank(state.directions, state.stretch)
    dtype = state.position.dtype
    size = step_size.to(dtype).unsqueeze(-1)
    # In double precision, so that the steps of a quarter turn add up to one in single precision.
    angle = step_size.double().unsqueeze(-1)
    cosine, sine = angle.cos().to(dtype), angle.sin().to(dtype)
    temperatures = temperature.to(dtype).expand(len(size)).unsqueeze(-1)
    position, momentum = state.position.clone(), momentum.clone()
    value, gradient = state.log_likelihood.clone(), state.gradient.clone()
    for done in range(int(leapfrog.max())):
        moving = (leapfrog > done).nonzero().squeeze(-1)
        rows = slice(None) if len(moving) == len(leapfrog) else moving
        ε, λ, z = size[rows], temperatures[rows], position[rows]
        if splitting:
            p = momentum[rows] + ε / 2 * λ * gradient[rows]
            c, s = cosine[rows], sine[rows]
            z, p = c * z + s * p, c * p - s * z
            evaluation: Evaluation = target(z)
            p = p + ε / 2 * λ * evaluation.gradient
        else:
            B = (
                preconditioner
                if rows == slice(None)
                else lowrank.LowRank(*(field[rows] for field in preconditioner))
            )
            p = momentum[rows] + ε / 2 * B(λ * gradient[rows] - z)
            z = z + ε * B(p)
            evaluation = target(z)
            p = p + ε / 2 * B(λ * evaluation.gradient - z)
        position[rows], momentum[rows] = z, p
        value[rows], gradient[rows] = evaluation.log_likelihood, evaluation.gradient
    moved = state._replace(position=position, log_likelihood=value, gradient=gradient)
    return moved, momentum
