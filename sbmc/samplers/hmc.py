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
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sbmc.checks import require
from sbmc.samplers import lowrank
from sbmc.samplers.adaptation import check_adaptation
from sbmc.samplers.chains import ChainRun, run_chains
from sbmc.samplers.contract import Sampler
from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.scout import BATCHES, scout
from sbmc.target import Evaluation, Target

QUARTER_PERIOD = math.pi / 2
# A trajectory never has more steps, so that a step size on its way down cannot stall a run.
MOST_LEAPFROG_STEPS = 1_000
# What the paper gives its chains: about the cost of training once.
DEFAULT_EPOCHS = 160


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
class HMC(Sampler):
    """Settings of Hamiltonian Monte Carlo: many short chains, a few long ones, or moves of `SMC`.

    Args:
        steps: HMC steps per chain; or
        epochs: a budget of likelihood evaluations per chain instead, the first one and the search
            for a step size included. The last trajectory is made to fit. If neither is given, 160;
            as a move of `SMC`, which has its own count, neither may be.
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
        scout: epochs of stochastic-gradient dynamics with which the chains leave their starting
            points before anything else, out of the budget if there is one; see `scout`. `warmup`
            then is a fraction of what is left, and `launch` is 0 if not given. None for none.
        scout_step_size: its step size, to be given with `scout`; two thirds of what HMC accepts
            without a preconditioner is a good one.
        scout_batches: how many batches the data are split into for it, 10 if not given.
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
    scout: int | None = None
    scout_step_size: float | None = None
    scout_batches: int | None = None
    draws: int = 1
    thinning: int = 1

    with_gradient = True
    largest_step = math.inf

    def __post_init__(self) -> None:
        require(
            self.steps is None or self.epochs is None,
            "steps",
            "left out when `epochs` is given",
            {"steps": self.steps, "epochs": self.epochs},
        )
        for name in (
            "steps",
            "leapfrog",
            "precondition",
            "scout",
            "scout_batches",
            "draws",
            "thinning",
        ):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            require(value is None or whole, name, "a positive integer", value)
        require(
            self.epochs is None or (isinstance(self.epochs, int) and self.epochs >= 2),
            "epochs",
            "an integer of at least 2 (the first evaluation and one step)",
            self.epochs,
        )
        self._check_scout()
        if self.precondition is not None and self.epochs is not None:
            left = self.epochs - (self.scout or 0)
            paid = 4 * self.precondition < left
            budget = "`epochs`" if self.scout is None else "the epochs that are left"
            rule = f"under a quarter of {budget} ({left}), since it costs twice as many"
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
            near = self.leapfrog is None and self.scout is None
            object.__setattr__(self, "launch", 1 if near else 0)
        count = (
            isinstance(self.launch, int) and not isinstance(self.launch, bool) and self.launch >= 0
        )
        require(count, "launch", "a non-negative integer", self.launch)
        for name in ("trajectory", "scout_step_size"):
            value = getattr(self, name)
            require(value is None or 0 < value < math.inf, name, "positive and finite", value)
        check_adaptation(self)
        require(0 <= self.warmup < 1, "warmup", "in [0, 1)", self.warmup)
        require(0 <= self.jitter < 1, "jitter", "in [0, 1)", self.jitter)
        self._check_draws()

    def _check_scout(self) -> None:
        for name in ("scout_step_size", "scout_batches"):
            value = getattr(self, name)
            alone = value is not None and self.scout is None
            require(not alone, name, "left out without `scout`", value)
        if self.scout is None:
            return
        given = self.scout_step_size is not None
        require(given, "scout_step_size", "given with `scout`", self.scout_step_size)
        if self.steps is None:
            left = (self.epochs or DEFAULT_EPOCHS) - self.scout
            require(left >= 2, "scout", "at least 2 less than the budget of epochs", self.scout)

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
            assert self.leapfrog is not None
            budget = (self.epochs or DEFAULT_EPOCHS) - (self.scout or 0)
            steps = (budget - 1) // self.leapfrog
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
        unlimited = self.steps is None and self.epochs is None
        settings = replace(self, epochs=DEFAULT_EPOCHS) if unlimited else self
        begin = partial(init, rng=rng, rank=self.precondition or 0)
        if settings.scout is None:
            return run_chains(settings, begin, step, target, rng, start, report)
        return settings._run_scouted(begin, target, rng, start, report)

    def _run_scouted(
        self, begin: Any, target: Target, rng: IslandNoise, start: Tensor, report: Any
    ) -> list[ChainRun]:
        """Scout, then run the chains on what is left of the budget, as if they started there."""
        assert self.scout is not None
        assert self.scout_step_size is not None
        spent, first = self.scout, self.step_size or self.scout_step_size

        def tell_epochs(done: int) -> None:
            if report is not None:
                report([ChainRun(step_size=first, epochs=done) for _ in rng.generators])

        found = scout(
            rng,
            start,
            target,
            epochs=spent,
            step_size=self.scout_step_size,
            batches=self.scout_batches or BATCHES,
            tell=tell_epochs,
        )
        left = None if self.epochs is None else self.epochs - spent
        rest = replace(self, epochs=left, scout=None, scout_step_size=None, scout_batches=None)

        def whole(runs: list[ChainRun]) -> list[ChainRun]:
            return [replace(run, epochs=run.epochs + spent) for run in runs]

        tell = None if report is None else lambda runs: report(whole(runs))
        return whole(run_chains(rest, begin, step, target, rng, found, tell))

    def begin(self, position: Tensor, target: Target) -> HMCState:
        """The state at `position`, for a move of SMC."""
        return init(position, target)

    def advance(
        self,
        rng: IslandNoise,
        state: HMCState,
        target: Target,
        *,
        step_sizes: list[float],
        temperature: Tensor,
    ) -> tuple[HMCState, HMCInfo, list[int]]:
        """One step; see `sbmc.samplers.kernel.Kernel`."""
        jitter = rng.uniform_per_island().tolist()
        lengths = [self.leapfrog_steps(ε, u, None) for ε, u in zip(step_sizes, jitter, strict=True)]
        moved, info = self._move(rng, state, target, step_sizes, temperature, lengths)
        return moved, info, lengths

    def probe(
        self,
        rng: IslandNoise,
        state: HMCState,
        target: Target,
        *,
        step_sizes: list[float],
        temperature: Tensor,
    ) -> tuple[HMCState, HMCInfo, list[int]]:
        """A single leapfrog step; see `sbmc.samplers.kernel.Kernel`."""
        lengths = [1] * len(step_sizes)
        moved, info = self._move(rng, state, target, step_sizes, temperature, lengths)
        return moved, info, lengths

    def _move(
        self,
        rng: IslandNoise,
        state: HMCState,
        target: Target,
        step_sizes: list[float],
        temperature: Tensor,
        lengths: list[int],
    ) -> tuple[HMCState, HMCInfo]:
        return step(
            rng,
            state,
            target,
            step_size=rng.per_particle(step_sizes),
            leapfrog=rng.per_particle(lengths).long(),
            temperature=rng.per_particle(temperature),
        )
