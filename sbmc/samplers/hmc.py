"""Hamiltonian Monte Carlo: the settings and the chains; the step is in `hmc_kernel`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from torch import Tensor

from sbmc.checks import is_number, require, require_count, require_flag
from sbmc.samplers.adaptation import FIRST_GUESS, SEARCH_ACCEPTANCE
from sbmc.samplers.chain_settings import ChainSettings, NextStep
from sbmc.samplers.chains import ChainRun, run_chains
from sbmc.samplers.hmc_kernel import HMCState, init, step
from sbmc.samplers.metropolis import MetropolisInfo
from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.scout import BATCHES, scout
from sbmc.samplers.snapshot import NO_CHECKPOINTS, Checkpointer
from sbmc.target.target import Target

QUARTER_PERIOD = math.pi / 2
# The most steps of a trajectory, so that a very small step size cannot stall a run.
MOST_LEAPFROG_STEPS = 1_000
# Further vectors of a particle for scouting and for the preconditioner; measured.
SCOUT_VECTORS, PRECONDITION_VECTORS = 8, 12


@dataclass(frozen=True, kw_only=True)
class HMC(ChainSettings):
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
        acceptance_band: the acceptances at which the step size is not changed.
        warmup: the fraction of the steps (or of the budget) after which adaptation is frozen.
        launch: the first so many steps of the warm-up are taken without a Metropolis test. Chains
            that start at a point estimate leave it uphill, where leapfrog's errors all have
            one sign and would reject every long trajectory. A particle whose trajectory was not
            stable stays, and is launched again with a smaller step size of its own; see
            `launch.py`. If not given, 1 with `trajectory` and 0 with `leapfrog`.
        jitter: each trajectory's length is multiplied by a uniform draw from 1 ± jitter. Without
            it, a direction in which the target's variance is a quarter of the prior's would come
            back to where it started.
        precondition: how many of the likelihood's stiffest directions, where the chains of an
            island start, to slow down, so that the step size can follow the others; see `lowrank`.
            It costs twice as many epochs, out of the budget if there is one. None for none.
        splitting: follow the prior's part of the flow exactly, by rotations, and leave the
            likelihood alone to the kicks; see `hmc_kernel`. A trajectory is then cut into equal
            steps no longer than the step size, so that its length is exactly the one asked for. No
            step is longer than a quarter turn. It pays where the prior holds most directions:
            on 8 × 8 digits, trajectories of π/2 in 8 steps at s = 0.01, 12 at 0.1 and 48 at 1 were
            accepted at 0.94, 0.64 and 0.76, against 0.88, 0.62 and 0.76 with leapfrog, at the same
            cost. None is the same as False.
        scout: epochs of stochastic-gradient dynamics with which the chains leave their starting
            points before anything else, out of the budget if there is one; see `scout`. `warmup`
            then is a fraction of the remaining budget, and `launch` is 0 if not given. None for
            none.
        scout_step_size: its step size, to be given with `scout`; two thirds of what HMC accepts
            without a preconditioner is a good one.
        scout_batches: how many batches the data are split into for it, 10 if not given.
        draws: states kept of each chain, `thinning` steps apart, the last of them at the end. In
            the posterior they are further particles.
        thinning: steps from one kept state to the next.

    Raises:
        BadInput: a setting breaks its rule.

    Examples:
        >>> HMC(epochs=160).trajectory == math.pi / 2
        True
    """

    trajectory: float | None = None
    leapfrog: int | None = None
    launch: int | None = None
    jitter: float = 0.5
    precondition: int | None = None
    splitting: bool | None = None
    scout: int | None = None
    scout_step_size: float | None = None
    scout_batches: int | None = None

    takes_leapfrog = True
    summary: ClassVar[str] = "Hamiltonian Monte Carlo: long trajectories that follow the gradient"
    cost: ClassVar[str] = "1 epoch a leapfrog step"

    def __post_init__(self) -> None:
        self._check_counts("leapfrog", "precondition", "scout", "scout_batches")
        for name in ("trajectory", "scout_step_size"):
            value = getattr(self, name)
            good = value is None or (is_number(value) and 0 < value < math.inf)
            require(good, name, "positive and finite", value)
        rule = "left out when `leapfrog` is given"
        both = self.trajectory is not None and self.leapfrog is not None
        require(not both, "trajectory", rule, self.trajectory)
        if self.trajectory is None and self.leapfrog is None:
            object.__setattr__(self, "trajectory", QUARTER_PERIOD)
        if self.launch is None:
            near = self.leapfrog is None and self.scout is None
            object.__setattr__(self, "launch", 1 if near else 0)
        require_count("launch", self.launch, 0)
        good = is_number(self.jitter) and 0 <= self.jitter < 1
        require(good, "jitter", "in [0, 1)", self.jitter)
        super().__post_init__()
        self._check_scout()
        self._check_precondition()
        self._check_splitting()

    def _check_scout(self) -> None:
        for name in ("scout_step_size", "scout_batches"):
            value = getattr(self, name)
            alone = value is not None and self.scout is None
            require(not alone, name, "left out without `scout`", value)
        if self.scout is None:
            return
        has_step_size = self.scout_step_size is not None
        require(has_step_size, "scout_step_size", "given with `scout`", self.scout_step_size)
        if self.steps is None:
            rule = "at least 2 less than the budget of epochs"
            require(self.budget >= 2, "scout", rule, self.scout)

    def _check_precondition(self) -> None:
        if self.precondition is None or self.epochs is None:
            return
        budget = "`epochs`" if self.scout is None else "the epochs that are left"
        rule = f"under a quarter of {budget} ({self.budget}), since it costs twice as many"
        require(4 * self.precondition < self.budget, "precondition", rule, self.precondition)

    def _check_splitting(self) -> None:
        require_flag("splitting", self.splitting, optional=True)
        if not self.splitting:
            return
        rule = "left out with `splitting`, which is exact in the prior's own coordinates alone"
        require(self.precondition is None, "precondition", rule, self.precondition)
        short = self.step_size is None or self.step_size <= self.largest_step
        require(short, "step_size", "at most a quarter turn with `splitting`", self.step_size)

    @property
    def budget(self) -> int:
        """Epochs for the chains after scouting, if `steps` is not given."""
        return super().budget - (self.scout or 0)

    @property
    def evaluations_each(self) -> int | None:
        """Evaluations of every step, if that is known beforehand."""
        return self.leapfrog

    @property
    def evaluations_before(self) -> int:
        """Evaluations of scouting and of the preconditioner, two for each of its vectors."""
        return (self.scout or 0) + 2 * (self.precondition or 0)

    def count_step(self) -> tuple[int, tuple[str, ...]]:
        """Leapfrog steps of a trajectory, from its length if their number is not given."""
        if self.leapfrog is not None:
            return self.leapfrog, ()
        assert self.trajectory is not None
        size = self.step_size or FIRST_GUESS
        each = max(1, round(self.trajectory / size))
        return each, (f"{each} leapfrog steps a trajectory, at a step size of {size:g}: it adapts",)

    @property
    def vectors(self) -> int:
        """Vectors of a particle, with those of scouting and of the preconditioner."""
        scouting = SCOUT_VECTORS if self.scout is not None else 0
        preconditioner = PRECONDITION_VECTORS if self.precondition is not None else 0
        return super().vectors + scouting + preconditioner

    def further_bytes(self, positions: int, dim: int, data: int) -> int:
        """Scouting holds a second copy of the data, in the order of its batches."""
        return data if self.scout is not None else 0

    @property
    def largest_step(self) -> float:
        """The largest step size."""
        return QUARTER_PERIOD if self.splitting else math.inf

    @property
    def search_acceptance(self) -> float:
        """The acceptance of single leapfrog steps, whatever the band of trajectories is."""
        return SEARCH_ACCEPTANCE

    @property
    def launched(self) -> int:
        """How many first steps are taken without a Metropolis test."""
        return self.launch or 0

    def next_step(self, step_size: float, uniform: float, remaining: int | None) -> NextStep:
        """L and ε of the next trajectory.

        Args:
            step_size: ε.
            uniform: a draw from [0, 1), which sets the jitter.
            remaining: evaluations that remain of a budget, if there is one. A trajectory takes all
                of them if less than half a trajectory would otherwise remain.

        Returns:
            L and ε. They do not depend on positions, so that the chain is reversible.
        """
        if self.leapfrog is not None:
            count = self.leapfrog if remaining is None else min(self.leapfrog, remaining)
            return NextStep(count, step_size)
        assert self.trajectory is not None
        length = self.trajectory * (1 + self.jitter * (2 * uniform - 1))
        # A ratio that is an integer up to rounding counts as that integer.
        steps = math.ceil(length / step_size - 1e-9) if self.splitting else length / step_size
        full_count = min(MOST_LEAPFROG_STEPS, max(1, round(steps)))
        count = full_count if remaining is None or remaining >= 1.5 * full_count else remaining
        if self.splitting:
            step_size = min(step_size, length / max(full_count, count))
        return NextStep(count, step_size)

    def run(
        self,
        target: Target,
        rng: IslandNoise,
        start: Tensor,
        report: Any = None,
        checkpointer: Checkpointer = NO_CHECKPOINTS,
    ) -> list[ChainRun]:
        """Run a batch of islands from `start` `(islands * particles, dim)`, whitened."""
        settings = self.limited()
        begin = partial(init, rng=rng, rank=self.precondition or 0)
        if settings.scout is None:
            return run_chains(settings, begin, self._step, target, rng, start, report, checkpointer)
        return settings._run_scouted(begin, target, rng, start, report, checkpointer)

    def _run_scouted(
        self,
        begin: Any,
        target: Target,
        rng: IslandNoise,
        start: Tensor,
        report: Any,
        checkpointer: Checkpointer,
    ) -> list[ChainRun]:
        """Scout, then run the chains from there with the rest of the budget."""
        assert self.scout is not None
        assert self.scout_step_size is not None
        spent, first = self.scout, self.step_size or self.scout_step_size

        def report_epochs(done: int) -> None:
            if report is not None:
                report([ChainRun(step_size=first, epochs=done) for _ in rng.generators])

        position = start
        # Chains that continue from a snapshot have done their scouting.
        if not checkpointer.has("chains"):
            position = scout(
                rng,
                start,
                target,
                epochs=spent,
                step_size=self.scout_step_size,
                batches=self.scout_batches or BATCHES,
                report=report_epochs,
                checkpointer=checkpointer,
            )
        remaining = None if self.epochs is None else self.epochs - spent
        without_scout = replace(
            self, epochs=remaining, scout=None, scout_step_size=None, scout_batches=None
        )

        def with_scouting(runs: list[ChainRun]) -> list[ChainRun]:
            return [replace(run, epochs=run.epochs + spent) for run in runs]

        report_all = None if report is None else lambda runs: report(with_scouting(runs))
        return with_scouting(
            run_chains(
                without_scout, begin, self._step, target, rng, position, report_all, checkpointer
            )
        )

    def _step(self, *args: Any, **options: Any) -> tuple[HMCState, MetropolisInfo]:
        return step(*args, **options, splitting=bool(self.splitting))

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
    ) -> tuple[HMCState, MetropolisInfo, list[int]]:
        """One step; see `sbmc.samplers.kernel.Kernel`."""
        jitter = rng.uniform_per_island().tolist()
        next_steps = [self.next_step(ε, u, None) for ε, u in zip(step_sizes, jitter, strict=True)]
        return self._move(rng, state, target, next_steps, temperature)

    def probe(
        self,
        rng: IslandNoise,
        state: HMCState,
        target: Target,
        *,
        step_sizes: list[float],
        temperature: Tensor,
    ) -> tuple[HMCState, MetropolisInfo, list[int]]:
        """A single leapfrog step; see `sbmc.samplers.kernel.Kernel`."""
        next_steps = [NextStep(1, step_size) for step_size in step_sizes]
        return self._move(rng, state, target, next_steps, temperature)

    def _move(
        self,
        rng: IslandNoise,
        state: HMCState,
        target: Target,
        next_steps: list[NextStep],
        temperature: Tensor,
    ) -> tuple[HMCState, MetropolisInfo, list[int]]:
        counts = [next_step.evaluations for next_step in next_steps]
        moved, info = self._step(
            rng,
            state,
            target,
            step_size=rng.per_particle([next_step.step_size for next_step in next_steps]),
            leapfrog=rng.per_particle(counts).long(),
            temperature=rng.per_particle(temperature),
        )
        return moved, info, counts
