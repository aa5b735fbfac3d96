"""Microcanonical Langevin Monte Carlo (MCLMC): large steps at a fixed speed, none of them rejected.

Particles follow the dynamics of `microcanonical`. The step size of each is steered so that the
square of its energy error is `energy_variance` for each coordinate, on average, and is frozen after
the warm-up (Robnik, De Luca, Silverstein and Seljak, 2023). The warm-up begins with larger steps,
which travel further, and comes down.

What this is for: posteriors with a few directions that are a thousand times narrower than others,
such as those of networks that give their own noise. There an exact sampler is held to the step of
the narrowest direction. A momentum takes up the heat of a larger step, and the particle blows up; a
direction cannot, since its speed is fixed, and particles travel on in the directions that predict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from sbmc.checks import is_number, is_whole, require, require_count
from sbmc.samplers.auto_state import drift_in_words
from sbmc.samplers.contract import EvaluationCount, Sampler
from sbmc.samplers.microcanonical import MicrocanonicalState, init, step, unit
from sbmc.samplers.noise import IslandNoise, island_rows
from sbmc.samplers.remedies import Symptom, call_of, longer_run
from sbmc.samplers.snapshot import (
    NO_CHECKPOINTS,
    Checkpointer,
    set_generators,
    snapshot_of,
    with_fields,
    with_runs,
)
from sbmc.target.target import Target

if TYPE_CHECKING:
    from typing import Self

# How fast a step size follows the energy errors: in the first steps, and then; the largest change
# of its logarithm in one step; and errors that count, in units of what is wanted.
FIRST_GAIN, GAIN, LARGEST_CHANGE, LARGEST_RATIO = 0.5, 0.02, 0.7, 20.0
# The energy variance that is aimed at begins so many times larger, and is annealed over the warm-up
# but for its last part. Over that part the logarithms of step sizes are averaged. Measured.
ANNEALED_FROM, AVERAGED = 30.0, 0.25
# A particle is put back if a step has missed its energy by more than this, and by more than 1 for
# each coordinate.
LEAST_LIMIT = 10.0
# The part of its steps that may throw a particle out before it counts as one that blew up.
MOST_THROWN = 0.01
LARGEST_STEP = 1.0
# Epochs by which the time of one is measured.
SHORT_RUN = 50


@dataclass
class MCLMCRun:
    """One island's progress and, at the end, its result.

    Attributes:
        step_size: the median of the particles' step sizes, in the units of HMC.
        epochs: evaluations with gradient per particle so far.
        steps: steps made.
        draws: kept positions, each `(particles, dim)`, whitened.
        acceptance: always empty: no step is ever rejected.
        non_finite: steps that came to something that is not finite.
        outcome: `completed`, `failed`, or `running`.
        message: why it failed.
        forward_epochs: always 0.
        sampling_steps: steps made after the warm-up.
        log_sizes: logarithms of the particles' step sizes, `(particles,)` float64.
        log_size_sum: their sum over the last part of the warm-up, likewise.
        averaged: over how many steps that is.
        thrown: how many steps after the warm-up threw each particle out, `(particles,)`; it was put
            back then.
        values: log likelihoods of the kept positions, `(draws, particles)`.
    """

    step_size: float
    epochs: int = 0
    steps: int = 0
    draws: list[Tensor] = field(default_factory=list)
    acceptance: list[float] = field(default_factory=list)
    non_finite: int = 0
    outcome: str = "running"
    message: str = ""
    forward_epochs: int = 0
    sampling_steps: int = 0
    log_sizes: Tensor | None = None
    log_size_sum: Tensor | None = None
    averaged: int = 0
    thrown: Tensor | None = None
    values: Tensor | None = None

    @property
    def sampling_acceptance(self) -> float:
        """There is none."""
        return math.nan

    @property
    def restarts(self) -> int:
        """How many particles were thrown out by more than one in a hundred of these steps."""
        if self.thrown is None:
            return 0
        return int((self.thrown > MOST_THROWN * self.sampling_steps).sum())

    @property
    def relaxing(self) -> str:
        """In words, if the log likelihood of the kept positions drifts."""
        return drift_in_words(self.values).replace("exact moves", "draws")


@dataclass(frozen=True, kw_only=True)
class MCLMC(Sampler):
    """Settings of microcanonical Langevin Monte Carlo: large steps, none of which is rejected.

    Args:
        epochs: evaluations of the likelihood per chain, that of the start included. Each step takes
            one.
        step_size: the first step size, from which each particle finds its own.
        energy_variance: the mean square of the energy error of a step, for each coordinate, at
            which step sizes aim. The bias grows with it, and so does how far particles travel. The
            warm-up begins with thirty times as much, and comes down to it.
        length: over which distance a direction is forgotten, in units of √d. 1 is the length of a
            posterior as wide as the prior.
        warmup: the fraction of the epochs after which step sizes are frozen.
        draws: states kept of each chain, evenly spaced over the epochs after the warm-up, the last
            of them at the end. In the posterior they are further particles.

    Raises:
        BadInput: a setting breaks its rule.

    Examples:
        >>> MCLMC(epochs=1000, draws=20).energy_variance
        0.1
    """

    epochs: int = 2_000
    step_size: float = 0.01
    energy_variance: float = 0.1
    length: float = 1.0
    warmup: float = 0.7
    draws: int = 1

    summary: ClassVar[str] = "microcanonical Langevin: large steps at a fixed speed, none rejected"
    cost: ClassVar[str] = "1 epoch a step"

    def __post_init__(self) -> None:
        good = is_whole(self.epochs) and self.epochs >= 2
        rule = "an integer of at least 2 (the first evaluation and one step)"
        require(good, "epochs", rule, self.epochs)
        require_count("epochs", self.epochs)
        for name in ("step_size", "energy_variance", "length"):
            value = getattr(self, name)
            good = is_number(value) and 0 < value < math.inf
            require(good, name, "positive and finite", value)
        good = is_number(self.warmup) and 0 <= self.warmup < 1
        require(good, "warmup", "in [0, 1)", self.warmup)
        require(is_whole(self.draws) and self.draws >= 1, "draws", "a positive integer", self.draws)
        left = self.epochs - self.warm_epochs
        rule = f"at most {left}, the epochs after the warm-up"
        require(self.draws <= left, "draws", rule, self.draws)

    @property
    def warm_epochs(self) -> int:
        """The epochs after which step sizes are frozen; at least the first evaluation."""
        return max(1, math.ceil(self.warmup * self.epochs))

    def evaluations(self) -> EvaluationCount:
        """The budget."""
        return EvaluationCount(self.epochs, 0)

    @property
    def snapshot_vectors(self) -> int:
        """Position, gradient, direction, and kept draws."""
        return 3 + self.draws

    def short_run(self) -> Self:
        """A few steps: those of small networks take a good part of the time of evaluations."""
        return replace(self, epochs=SHORT_RUN, draws=1)

    @classmethod
    def remedies(
        cls, symptoms: Sequence[Symptom], settings: Mapping[str, Any], step_size: float | None
    ) -> tuple[str, ...]:
        """A longer run; smaller steps if particles blew up."""
        longer = call_of(cls, settings, longer_run(settings, cls.epochs))
        advice = [f"Give the chains a longer run: {longer}."]
        if "restarted" in symptoms:
            advice.insert(0, "Take smaller steps, by a smaller `energy_variance`.")
        return tuple(advice)

    def run(
        self,
        target: Target,
        rng: IslandNoise,
        start: Tensor,
        report: Callable[[list[MCLMCRun]], None] | None = None,
        checkpointer: Checkpointer = NO_CHECKPOINTS,
    ) -> list[MCLMCRun]:
        """Run a batch of islands from `start` `(islands * particles, dim)`, whitened.

        Args:
            target: log likelihood and gradient.
            rng: the islands' noise.
            start: where they begin.
            report: called after every step with all runs.
            checkpointer: is offered a snapshot at the same times, as "mclmc".

        Returns:
            One run per island; those whose start was not finite have failed, alone.

        Raises:
            BadInput: there is one coordinate only, in which no direction can turn.
        """
        require(start.shape[1] > 1, "sampler", "another one where there is one parameter", "MCLMC")
        snapshot = checkpointer.restore("mclmc")
        if snapshot is None:
            state = init(rng, start, target)
            runs = [self._begin(rng.particles) for _ in rng.generators]
            _fail_non_finite(runs, state, rng.particles)
        else:
            zero = start.new_zeros(len(start), dtype=torch.float64)
            empty = MicrocanonicalState(
                start, zero, torch.zeros_like(start), torch.zeros_like(start)
            )
            state = with_fields("state", empty, snapshot.tensors)
            runs = with_runs(MCLMCRun, snapshot, start.device)
            set_generators(rng.generators, snapshot.tensors["generators"])
        while going := [i for i, run in enumerate(runs) if run.outcome == "running"]:
            everyone = len(going) == len(runs)
            rows = slice(None) if everyone else island_rows(going, rng.particles)
            part = state if everyone else MicrocanonicalState(*(each[rows] for each in state))
            moved = self._advance(rng.select(going), part, [runs[i] for i in going], target)
            if everyone:
                state = moved
            else:
                for kept, fresh in zip(state, moved, strict=True):
                    kept[rows] = fresh
            for i in going:
                own = slice(i * rng.particles, (i + 1) * rng.particles)
                self._keep(runs[i], state.position[own], state.log_likelihood[own])
            checkpointer.offer_snapshot("mclmc", partial(snapshot_of, state, runs, rng.generators))
            if report is not None:
                report(runs)
        checkpointer.discard("mclmc")
        return runs

    def _begin(self, particles: int) -> MCLMCRun:
        logs = torch.full((particles,), math.log(self.step_size), dtype=torch.float64)
        return MCLMCRun(self.step_size, epochs=1, log_sizes=logs)

    def _advance(
        self, rng: IslandNoise, state: MicrocanonicalState, runs: Sequence[MCLMCRun], target: Target
    ) -> MicrocanonicalState:
        """One step of islands that are equally far, and their next step sizes."""
        logs = torch.cat([run.log_sizes for run in runs if run.log_sizes is not None])
        sizes = logs.exp().to(state.position.device)
        moved, info = step(rng, state, target, step_size=sizes, length=self.length)
        dim = state.position.shape[1]
        thrown = ~(info.energy_error.abs() <= max(LEAST_LIMIT, dim)) | info.non_finite
        if bool(thrown.any()):
            moved = _put_back(rng, state, moved, thrown)
        warm = runs[0].epochs < self.warm_epochs
        if warm:
            logs = self._tuned(logs, info.energy_error.cpu(), thrown.cpu(), runs[0].steps, dim)
        for i, (run, part) in enumerate(zip(runs, logs.split(rng.particles), strict=True)):
            own = slice(i * rng.particles, (i + 1) * rng.particles)
            run.non_finite += int(info.non_finite[own].sum()) if bool(thrown.any()) else 0
            run.epochs += 1
            run.steps += 1
            if warm:
                self._note_sizes(run, part)
            else:
                run.sampling_steps += 1
                if bool(thrown.any()):
                    now = thrown[own].long().cpu()
                    run.thrown = now if run.thrown is None else run.thrown + now
        return moved

    def _tuned(self, logs: Tensor, errors: Tensor, thrown: Tensor, steps: int, dim: int) -> Tensor:
        """Logarithms of step sizes after a step with these energy errors."""
        gain = max(GAIN, FIRST_GAIN / (1 + steps / 10))
        left = max(0.0, 1 - steps / ((1 - AVERAGED) * self.warm_epochs))
        ratio = errors.square() / (dim * self.energy_variance * ANNEALED_FROM**left)
        ratio = torch.where(thrown, math.inf, ratio).clamp(max=LARGEST_RATIO)
        change = torch.where(thrown, -LARGEST_CHANGE, gain * (1 - ratio))
        changed = logs + change.clamp(-LARGEST_CHANGE, LARGEST_CHANGE)
        return changed.clamp(max=math.log(LARGEST_STEP))

    def _note_sizes(self, run: MCLMCRun, logs: Tensor) -> None:
        """Note step sizes of the warm-up; at its end their geometric mean is frozen."""
        run.log_sizes = logs.clone()
        if run.epochs > (1 - AVERAGED) * self.warm_epochs:
            sums = torch.zeros_like(logs) if run.log_size_sum is None else run.log_size_sum
            run.log_size_sum = sums + logs
            run.averaged += 1
        if run.epochs == self.warm_epochs and run.log_size_sum is not None:
            run.log_sizes = run.log_size_sum / run.averaged
        run.step_size = float(run.log_sizes.median().exp())

    def _keep(self, run: MCLMCRun, position: Tensor, values: Tensor) -> None:
        """Keep a position when its turn has come, and end the run with the last."""
        sampled, epochs = run.epochs - self.warm_epochs, self.epochs - self.warm_epochs
        if sampled > 0 and sampled * self.draws // epochs > (sampled - 1) * self.draws // epochs:
            run.draws.append(position.clone())
            row = values.cpu().unsqueeze(0).clone()
            run.values = row if run.values is None else torch.cat([run.values, row])
        if run.epochs >= self.epochs:
            run.outcome = "completed"


def _put_back(
    rng: IslandNoise, before: MicrocanonicalState, after: MicrocanonicalState, thrown: Tensor
) -> MicrocanonicalState:
    """The state after a step, with particles that it threw out where they were before it.

    They leave in a direction drawn anew, since the old one led nowhere. It is drawn for islands
    with such particles alone, so that the noise of an island does not depend on others.
    """
    fresh = after.direction.clone()
    for island in thrown.view(-1, rng.particles).any(1).nonzero().flatten().tolist():
        own = slice(island * rng.particles, (island + 1) * rng.particles)
        fresh[own] = unit(rng.select([island]).normal(fresh.shape[1], fresh.dtype))
    back = before._replace(direction=fresh)
    rows = thrown.unsqueeze(-1)
    return MicrocanonicalState(
        *(
            torch.where(thrown if new.ndim == 1 else rows, old, new)
            for old, new in zip(back, after, strict=True)
        )
    )


def _fail_non_finite(runs: Sequence[MCLMCRun], state: MicrocanonicalState, particles: int) -> None:
    """Islands whose start is not finite have failed, and no others."""
    good = torch.isfinite(state.log_likelihood) & torch.isfinite(state.gradient).all(-1)
    good = good & torch.isfinite(state.position).all(-1)
    for run, bad in zip(runs, (~good).view(len(runs), particles).sum(1).tolist(), strict=True):
        if bad:
            run.outcome = "failed"
            run.message = (
                f"log likelihood or gradient not finite for {bad} of {particles} particles at the "
                "start"
            )
