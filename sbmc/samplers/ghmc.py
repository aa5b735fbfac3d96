"""Generalised Hamiltonian Monte Carlo in whitened coordinates, for a batch of particles.

HMC with a momentum that is kept from step to step and renewed only in part (Horowitz, 1991). The
target at temperature λ is log π(z) = λ·ℓ(z) − ‖z‖²/2, the energy H(z, p) = −log π(z) + ‖p‖²/2.
A step renews the momentum,

    p ← a p + sqrt(1 − a²) ξ,   ξ ~ N(0, I),   a = exp(−γ ε L),

follows L leapfrog steps of size ε from (z, p) to (z', p'), and with probability
min(1, exp(H(z, p) − H(z', p'))) goes on from (z', p'); otherwise it stays and turns round, at
(z, −p). Each of the two parts leaves exp(−H) invariant, and with it π for the positions: the first
because it leaves N(0, I) invariant, the second because leapfrog with a turn of the momentum is its
own inverse and keeps volume. Without the turn at a rejection the target would not be invariant.

a is set through a friction γ, so that what is remembered of a momentum after a time t = ε L k,
exp(−γ t), does not depend on how t is cut into steps. As ε → 0 a step follows the kinetic Langevin
diffusion; a → 0 is HMC.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from sbmc.checks import is_number, require
from sbmc.samplers import lowrank
from sbmc.samplers.chain_settings import ChainSettings, NextStep
from sbmc.samplers.chains import ChainRun, run_chains
from sbmc.samplers.hmc_kernel import HMCState, hamiltonian, trajectory
from sbmc.samplers.metropolis import MetropolisInfo, metropolis_test
from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.snapshot import NO_CHECKPOINTS, Checkpointer
from sbmc.target.target import Target


class GHMCState(NamedTuple):
    """What the next step needs; the leading axis of every field is the particle."""

    position: Tensor  # (particles, dim), whitened
    log_likelihood: Tensor  # (particles,) float64
    gradient: Tensor  # (particles, dim), of the log likelihood
    momentum: Tensor  # (particles, dim)


def init(position: Tensor, target: Target, rng: IslandNoise) -> GHMCState:
    """The state at `position` `(particles, dim)`, with a momentum from N(0, I); one evaluation."""
    momentum = rng.normal(position.shape[1], position.dtype)
    return GHMCState(position.clone(), *target(position), momentum)


def step(
    rng: IslandNoise,
    state: GHMCState,
    target: Target,
    *,
    step_size: Tensor,
    leapfrog: Tensor,
    friction: float,
    temperature: float | Tensor = 1.0,
) -> tuple[GHMCState, MetropolisInfo]:
    """One step for every particle.

    Args:
        rng: ξ and a uniform number are drawn for each particle.
        state: where the particles are, and where they are going.
        target: log likelihood and gradient.
        step_size: ε, `(particles,)`.
        leapfrog: L, `(particles,)` integers, at least 1.
        friction: γ.
        temperature: λ, a number or `(particles,)`.

    Returns:
        The new state and the info. A proposal that is not finite is rejected.
    """
    dtype = state.position.dtype
    temperatures = torch.as_tensor(temperature, dtype=torch.float64, device=state.position.device)
    noise = rng.normal(state.position.shape[1], dtype)
    uniform = rng.uniform()
    time = step_size.double() * leapfrog
    remembered = torch.exp(-friction * time).unsqueeze(-1)
    renew = torch.sqrt(-torch.expm1(-2 * friction * time)).unsqueeze(-1)
    momentum = remembered.to(dtype) * state.momentum + renew.to(dtype) * noise
    start = HMCState(*state[:3], *lowrank.identity(state.position))
    end, ahead = trajectory(start, momentum, target, step_size, leapfrog, temperatures)
    difference = hamiltonian(start, momentum, temperatures) - hamiltonian(end, ahead, temperatures)
    info = metropolis_test(difference, uniform)
    accepted = info.accepted
    rows = accepted.unsqueeze(-1)
    merged = GHMCState(
        torch.where(rows, end.position, state.position),
        torch.where(accepted, end.log_likelihood, state.log_likelihood),
        torch.where(rows, end.gradient, state.gradient),
        torch.where(rows, ahead, -momentum),
    )
    return merged, info


@dataclass(frozen=True, kw_only=True)
class GHMC(ChainSettings):
    """Settings of generalised Hamiltonian Monte Carlo: many short steps that keep their direction.

    It is not a move of `SMC`, whose particles have no momentum to carry over.

    Args:
        steps: steps per chain; or
        epochs: a budget of likelihood evaluations per chain instead, the first one and the search
            for a step size included. If neither is given, 160.
        leapfrog: L, leapfrog steps from one renewal of the momentum to the next.
        friction: γ. A momentum is forgotten after a time of about 1/γ. 2 is critical for the
            directions that the data leave free, whose period is 2π: no other friction forgets
            positions there as soon, and after a quarter of the period exp(−π) = 4 % is left of a
            momentum. More would be a random walk, less would go round in circles.
        step_size: the first step size; searched for at the start if not given.
        adapt: whether the step size is adapted during warm-up, from the acceptance across the
            particles of the island: times `shrink` below the band, times `grow` above it.
        acceptance_band: the acceptances at which the step size is not changed. They are higher than
            for HMC, because a rejection does not only cost a step but sends the chain back where it
            came from.
        shrink: factor below the band.
        grow: factor above it.
        warmup: the fraction of the steps (or of the budget) after which adaptation is frozen.
        draws: states kept of each chain, `thinning` steps apart, the last of them at the end.
        thinning: steps from one kept state to the next.

    Raises:
        BadInput: a setting breaks its rule.

    Examples:
        >>> GHMC(epochs=100).leapfrog
        1
    """

    leapfrog: int = 1
    friction: float = 2.0
    acceptance_band: tuple[float, float] = (0.9, 0.97)

    takes_leapfrog = True
    summary: ClassVar[str] = "generalised HMC: short steps with a momentum that is renewed in part"
    cost: ClassVar[str] = "1 epoch a leapfrog step"

    def __post_init__(self) -> None:
        require(self.leapfrog is not None, "leapfrog", "a positive integer", self.leapfrog)
        self._check_counts("leapfrog")
        good = is_number(self.friction) and 0 < self.friction < math.inf
        require(good, "friction", "positive and finite", self.friction)
        super().__post_init__()

    @property
    def evaluations_each(self) -> int:
        """Evaluations of every step."""
        return self.leapfrog

    def next_step(self, step_size: float, uniform: float, remaining: int | None) -> NextStep:
        """L and ε of the next step; the last step of a budget is shortened to fit."""
        return NextStep(
            self.leapfrog if remaining is None else min(self.leapfrog, remaining), step_size
        )

    def run(
        self,
        target: Target,
        rng: IslandNoise,
        start: Tensor,
        report: Any = None,
        checkpointer: Checkpointer = NO_CHECKPOINTS,
    ) -> list[ChainRun]:
        """Run a batch of islands from `start` `(islands * particles, dim)`, whitened."""
        begin = partial(init, rng=rng)
        move = partial(step, friction=self.friction)
        return run_chains(self.limited(), begin, move, target, rng, start, report, checkpointer)
