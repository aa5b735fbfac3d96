"""Hamiltonian Monte Carlo in whitened coordinates, for a batch of particles.

With the anchored prior N(0, I), the target at temperature λ is

    log π(z) = λ·ℓ(z) − ‖z‖²/2,

and a step draws a momentum p ~ N(0, I), follows L leapfrog steps of size ε of the flow of
H(z, p) = −log π(z) + ‖p‖²/2, and accepts the end point with probability min(1, exp(−ΔH)), which
leaves π invariant. For a flat likelihood the flow is a rotation with period 2π: a trajectory of
length π/2 makes every direction that the data leave free independent of its past.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sbmc.checks import require
from sbmc.samplers import lowrank
from sbmc.samplers.chains import ChainRun, run_chains
from sbmc.samplers.noise import IslandNoise
from sbmc.target import Evaluation, Target

QUARTER_PERIOD = math.pi / 2
# A trajectory never has more steps, so that a step size on its way down cannot stall a run.
MOST_LEAPFROG_STEPS = 1_000


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


class HMCInfo(NamedTuple):
    """What a step has to tell; the leading axis is the particle."""

    acceptance: Tensor  # (particles,) acceptance probabilities
    accepted: Tensor  # (particles,) bool
    non_finite: Tensor  # (particles,) bool: proposals rejected because they were not finite


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
    here = target(position)
    if rank == 0 or rng is None:
        return HMCState(position.clone(), *here, *lowrank.identity(position))
    return HMCState(position.clone(), *here, *lowrank.estimate(rng, position, here, target, rank))


def step(
    rng: IslandNoise,
    state: HMCState,
    target: Target,
    *,
    step_size: Tensor,
    leapfrog: Tensor,
    temperature: float | Tensor = 1.0,
    metropolis: bool = True,
) -> tuple[HMCState, HMCInfo]:
    """One HMC step for every particle.

    Args:
        rng: a momentum and a uniform number are drawn for each particle.
        state: where the particles are.
        target: log likelihood and gradient.
        step_size: ε, `(particles,)`.
        leapfrog: L, `(particles,)` integers, at least 1. Particles that have made theirs rest and
            cost nothing more.
        temperature: λ, a number or `(particles,)`.
        metropolis: False takes every finite end point, whatever its energy: for warm-up only.

    Returns:
        The new state and what there is to tell. A proposal that is not finite is rejected.
    """
    heat = torch.as_tensor(temperature, dtype=torch.float64, device=state.position.device)
    momentum = rng.normal(state.position.shape[1], state.position.dtype)
    uniform = rng.uniform()
    start = _hamiltonian(state, momentum, heat)
    proposal, momentum = _trajectory(state, momentum, target, step_size, leapfrog, heat)
    difference = start - _hamiltonian(proposal, momentum, heat)
    finite = torch.isfinite(difference)
    acceptance = torch.where(finite, difference.clamp(max=0).exp(), 0.0)
    accepted = uniform < acceptance if metropolis else finite
    rows = accepted.unsqueeze(-1)
    merged = state._replace(
        position=torch.where(rows, proposal.position, state.position),
        log_likelihood=torch.where(accepted, proposal.log_likelihood, state.log_likelihood),
        gradient=torch.where(rows, proposal.gradient, state.gradient),
    )
    return merged, HMCInfo(acceptance, accepted, ~finite)


def _hamiltonian(state: HMCState, momentum: Tensor, temperature: Tensor) -> Tensor:
    kinetic = momentum.double().square().sum(-1) / 2
    prior = state.position.double().square().sum(-1) / 2
    return kinetic + prior - temperature * state.log_likelihood


def _trajectory(
    state: HMCState,
    momentum: Tensor,
    target: Target,
    step_size: Tensor,
    leapfrog: Tensor,
    temperature: Tensor,
) -> tuple[HMCState, Tensor]:
    """Leapfrog: half a kick, a drift, half a kick; reversible, and exact to second order in ε.

    The momentum is that of the preconditioned coordinates u = B⁻¹ z, in which kicks are B·force and
    a drift by p moves z by B·p.
    """
    whole = lowrank.LowRank(state.directions, state.stretch)
    dtype = state.position.dtype
    size = step_size.to(dtype).unsqueeze(-1)
    heat = temperature.to(dtype).expand(len(size)).unsqueeze(-1)
    position, momentum = state.position.clone(), momentum.clone()
    value, gradient = state.log_likelihood.clone(), state.gradient.clone()
    for done in range(int(leapfrog.max())):
        going = (leapfrog > done).nonzero().squeeze(-1)
        rows = slice(None) if len(going) == len(leapfrog) else going
        ε, λ, z = size[rows], heat[rows], position[rows]
        B = whole if rows == slice(None) else lowrank.LowRank(*(field[rows] for field in whole))
        p = momentum[rows] + ε / 2 * B(λ * gradient[rows] - z)
        z = z + ε * B(p)
        evaluation: Evaluation = target(z)
        p = p + ε / 2 * B(λ * evaluation.gradient - z)
        position[rows], momentum[rows] = z, p
        value[rows], gradient[rows] = evaluation.log_likelihood, evaluation.gradient
    moved = state._replace(position=position, log_likelihood=value, gradient=gradient)
    return moved, momentum


@dataclass(frozen=True, kw_only=True)
class HMC:
    """Settings of Hamiltonian Monte Carlo: many short chains, or a few long ones.

    Args:
        steps: HMC steps per chain; or
        epochs: a budget of likelihood evaluations per chain instead, the first one and the search
            for a step size included. The last trajectory is made to fit.
        trajectory: length of a trajectory in whitened units, π/2 by default; the number of leapfrog
            steps follows from the step size; or
        leapfrog: a fixed number of leapfrog steps (1 in the paper).
        step_size: the first step size; searched for at the start if not given.
        adapt: whether the step size is adapted during warm-up, from the acceptance across the
            particles of the island: times `shrink` below the band, times `grow` above it.
        acceptance_band: the acceptance that is left alone.
        warmup: the fraction of the steps (or of the budget) after which adaptation is frozen.
        launch: the first so many steps of the warm-up are taken whatever their energy error.
            Chains that start at a point estimate leave it uphill, where leapfrog's errors all have
            one sign and would reject every long trajectory. If not given, 1 with `trajectory` and
            0 with `leapfrog`.
        jitter: each trajectory's length is multiplied by a uniform draw from 1 ± jitter. Without
            it, a direction in which the target's variance is a quarter of the prior's would come
            back to where it started.
        precondition: how many of the likelihood's stiffest directions at each chain's start to slow
            down, so that the step size can follow the others; see `lowrank`. It costs twice as
            many epochs, out of the budget if there is one. None for none.
        draws: states kept of each chain, `thinning` steps apart, the last of them at the end. They
            stand as further particles in the posterior.
        thinning: steps from one kept state to the next.

    Raises:
        BadInput: a setting breaks its rule.

    Example:
        >>> HMC(epochs=160).trajectory == math.pi / 2
        True
    """

    steps: int | None = None
    epochs: int | None = None
    trajectory: float | None = None
    leapfrog: int | None = None
    step_size: float | None = None
    adapt: bool = True
    acceptance_band: tuple[float, float] = (0.6, 0.8)
    shrink: float = 0.7
    grow: float = 1.1
    warmup: float = 0.5
    launch: int | None = None
    jitter: float = 0.5
    precondition: int | None = None
    draws: int = 1
    thinning: int = 1

    def __post_init__(self) -> None:
        require(
            (self.steps is None) != (self.epochs is None),
            "steps",
            "given, or else `epochs`, and not both",
            {"steps": self.steps, "epochs": self.epochs},
        )
        for name in ("steps", "leapfrog", "precondition", "draws", "thinning"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            require(value is None or whole, name, "a positive integer", value)
        require(
            self.epochs is None or (isinstance(self.epochs, int) and self.epochs >= 2),
            "epochs",
            "an integer of at least 2 (the first evaluation and one step)",
            self.epochs,
        )
        if self.precondition is not None and self.epochs is not None:
            paid = 4 * self.precondition < self.epochs
            rule = f"under a quarter of `epochs` ({self.epochs}), since it costs twice as many"
            require(paid, "precondition", rule, self.precondition)
        require(
            self.trajectory is None or self.leapfrog is None,
            "trajectory",
            "left out when `leapfrog` is given",
            self.trajectory,
        )
        if self.trajectory is None and self.leapfrog is None:
            object.__setattr__(self, "trajectory", QUARTER_PERIOD)
        if self.launch is None:
            object.__setattr__(self, "launch", 0 if self.leapfrog is not None else 1)
        count = (
            isinstance(self.launch, int) and not isinstance(self.launch, bool) and self.launch >= 0
        )
        require(count, "launch", "a non-negative integer", self.launch)
        for name in ("trajectory", "step_size"):
            value = getattr(self, name)
            require(value is None or 0 < value < math.inf, name, "positive and finite", value)
        low, high = self.acceptance_band
        require(0 < low <= high < 1, "acceptance_band", "within (0, 1) and ordered", (low, high))
        require(0 < self.shrink < 1, "shrink", "in (0, 1)", self.shrink)
        require(1 < self.grow < math.inf, "grow", "above 1", self.grow)
        require(0 <= self.warmup < 1, "warmup", "in [0, 1)", self.warmup)
        require(0 <= self.jitter < 1, "jitter", "in [0, 1)", self.jitter)
        self._check_draws()

    def _check_draws(self) -> None:
        if self.draws == 1:
            return
        steps = self.steps
        if steps is None:
            require(
                self.leapfrog is not None,
                "draws",
                "1 unless the number of steps is known (`steps`, or `epochs` with `leapfrog`)",
                self.draws,
            )
            assert self.epochs is not None
            assert self.leapfrog is not None
            steps = (self.epochs - 1) // self.leapfrog
        kept = steps - math.ceil(steps * self.warmup)
        # The search for a step size may take some of a budget; draws must fit in what is sure.
        require(
            (self.draws - 1) * self.thinning < kept,
            "draws",
            f"few enough that draws x thinning fits in the {kept} steps after warm-up",
            (self.draws, self.thinning),
        )

    def leapfrog_steps(self, step_size: float, uniform: float, left: int | None) -> int:
        """L for the next trajectory.

        Args:
            step_size: ε.
            uniform: a draw from [0, 1), which sets the jitter.
            left: evaluations that remain of a budget, if there is one. A trajectory takes all of
                them if less than half a trajectory would otherwise remain.

        Returns:
            The number of leapfrog steps. It depends on no position: the chain stays reversible.
        """
        if self.leapfrog is not None:
            return self.leapfrog if left is None else min(self.leapfrog, left)
        assert self.trajectory is not None
        length = self.trajectory * (1 + self.jitter * (2 * uniform - 1))
        wanted = min(MOST_LEAPFROG_STEPS, max(1, round(length / step_size)))
        return wanted if left is None or left >= 1.5 * wanted else left

    def run(
        self, target: Target, rng: IslandNoise, start: Tensor, report: Any = None
    ) -> list[ChainRun]:
        """Run a batch of islands from `start` `(islands * particles, dim)`, whitened."""
        begin = partial(init, rng=rng, rank=self.precondition or 0)
        return run_chains(self, begin, step, target, rng, start, report)
