"""Hamiltonian Monte Carlo that tunes itself: dynamics from the anchor, then exact moves.

Particles leave their start by Langevin dynamics (`langevin`), whose step size follows from how hot
they run or how well they keep their energy (`thermostat`). Then come HMC trajectories with a
Metropolis test, about a quarter of the prior's period long: the first of them tune the step size,
and from then on it is frozen, so that every move leaves the posterior invariant. What the dynamics
have left out of equilibrium, the exact moves put right. The step size is annealed, and never the
temperature.

One rule decides what the epochs are spent on; see `schedule_of`. With a budget in epochs, nothing
has to be set. The exact moves end early when predictions have settled (`settling`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from sbmc.checks import is_number, require, require_count
from sbmc.log import logger
from sbmc.model.data import leaves
from sbmc.samplers.auto_batches import pass_over_batches
from sbmc.samplers.auto_phases import hand_on_step_size, make_exact_moves, step_on_all_data
from sbmc.samplers.auto_schedule import (
    BATCH_SIZE,
    EPOCHS_FOR_ALL_DATA,
    Schedule,
    batch_size_of,
    schedule_of,
)
from sbmc.samplers.auto_state import AutoRun, AutoState
from sbmc.samplers.contract import VECTORS, EvaluationCount, Sampler
from sbmc.samplers.inside_a_pass import begun_pass, with_begun_pass
from sbmc.samplers.noise import IslandNoise, island_rows
from sbmc.samplers.remedies import Symptom, call_of, longer_run
from sbmc.samplers.settling import FEWEST_MOVES, SETTLED, watched_predictions
from sbmc.samplers.snapshot import (
    NO_CHECKPOINTS,
    Checkpointer,
    Snapshot,
    set_generators,
    snapshot_of,
    with_fields,
    with_runs,
)
from sbmc.target.minibatch import MiniBatches
from sbmc.target.target import Target

if TYPE_CHECKING:
    from typing import Self

FIRST_STEP = 0.02
# Vectors of a position's size that a particle takes at the worst moment; measured.
FURTHER_VECTORS = 4
# Of the inputs of a mini-batch that is read from a stream.
STREAMED_BYTES = 2**28


@dataclass(frozen=True, kw_only=True)
class AutoHMC(Sampler):
    """Settings of Hamiltonian Monte Carlo that tunes itself; only the budget has to be chosen.

    Args:
        epochs: passes over the data, of any kind, for each particle.
        step_size: the first step size, from which the sampler finds its own. It hardly matters:
            runs that began anywhere from 1e-5 to 10 came to the same.
        settle: an island ends before its epochs are spent when its settling figure is below this
            (`sbmc.samplers.settling`). None spends all epochs, and computes no figure.
        extend: an island that has not settled when its epochs are spent goes on until it has, for
            at most so many times the epochs.

    Raises:
        BadInput: a setting breaks its rule.

    Examples:
        >>> AutoHMC(epochs=100).step_size
        0.02
    """

    epochs: int = 160
    step_size: float = FIRST_STEP
    settle: float | None = SETTLED
    extend: float = 1.0

    summary: ClassVar[str] = "HMC that tunes itself: dynamics from the anchor, then exact moves"
    cost: ClassVar[str] = "its budget in epochs, or less if predictions settle before"

    def __post_init__(self) -> None:
        require_count("epochs", self.epochs, 2)  # the first evaluation and one step
        good = is_number(self.step_size) and 0 < self.step_size < math.inf
        require(good, "step_size", "positive and finite", self.step_size)
        good = self.settle is None or (is_number(self.settle) and 1 < self.settle < math.inf)
        require(good, "settle", "above 1 and finite, or None", self.settle)
        good = is_number(self.extend) and 1 <= self.extend < math.inf
        require(good, "extend", "at least 1 and finite", self.extend)
        rule = "1 where `settle` is None: nothing says when to end then"
        require(self.settle is not None or self.extend == 1, "extend", rule, self.extend)
        if self.epochs < EPOCHS_FOR_ALL_DATA:
            object.__setattr__(self, "batch_size", BATCH_SIZE)
            object.__setattr__(self, "takes_streams", True)

    @property
    def most_epochs(self) -> int:
        """The epochs after which an island ends, settled or not."""
        return int(self.extend * self.epochs)

    @property
    def _may_settle(self) -> bool:
        """Whether the epochs can hold as many exact moves as it takes to settle."""
        return self.epochs - schedule_of(1, self.epochs).tuned_until > FEWEST_MOVES

    def evaluations(self) -> EvaluationCount:
        """The budget; less if predictions settle before, more if it is extended."""
        notes = []
        if self.settle is not None and self._may_settle:
            notes.append("fewer epochs if predictions settle before")
        if self.most_epochs > self.epochs:
            notes.append(f"up to {self.most_epochs} epochs a chain if predictions do not settle")
        return EvaluationCount(self.epochs, 0, tuple(notes))

    @property
    def vectors(self) -> int:
        """Vectors of a particle: those of HMC, a momentum, and where it was last healthy."""
        return VECTORS + FURTHER_VECTORS

    @property
    def snapshot_vectors(self) -> int:
        """Position, momentum, gradient, where it was last healthy, and the draw."""
        return 4 + self.draws

    def batch_rows(self, examples: int) -> int | None:
        """As many as `batch_size_of` says, if there are passes over mini-batches."""
        return None if self.batch_size is None else batch_size_of(examples)

    def short_run(self) -> Self | None:
        """Two epochs, if they are passes over mini-batches, whose steps are small and many."""
        return None if self.batch_size is None else replace(self, epochs=2)

    @classmethod
    def remedies(
        cls, symptoms: Sequence[Symptom], settings: Mapping[str, Any], step_size: float | None
    ) -> tuple[str, ...]:
        """A longer run, which is all that there is to choose; then the prior is to blame."""
        longer = call_of(cls, settings, longer_run(settings, cls.epochs))
        advice = f"Give the chains a longer run: {longer}."
        if not {"rejected", "stayed"} & set(symptoms):
            return (advice,)
        return (
            advice,
            "If that does not help, the prior may be too wide for the data: try a smaller "
            "`prior_variance`, or a smaller `s`.",
        )

    def run(
        self,
        target: Target,
        rng: IslandNoise,
        start: Tensor,
        report: Callable[[list[AutoRun]], None] | None = None,
        checkpointer: Checkpointer = NO_CHECKPOINTS,
    ) -> list[AutoRun]:
        """Run a batch of islands from `start` `(islands * particles, dim)`, whitened.

        Args:
            target: log likelihood and gradient. One that has no data to split is evaluated whole.
            rng: the islands' noise.
            start: where they begin.
            report: called after every pass, step or move with all runs.
            checkpointer: is offered a snapshot at the same times, and inside a pass, as "auto".

        Returns:
            One run per island; those whose start was not finite have failed, alone.
        """
        engine = getattr(target, "engine", None)
        streamed = engine is not None and engine.stream is not None
        schedule = self._schedule(1 if engine is None else engine.rows, streamed=streamed)
        snapshot = checkpointer.restore("auto")
        if snapshot is None:
            state = AutoState.at(start, rng.normal(start.shape[1], start.dtype))
            logger.info("AutoHMC: %s", schedule.reason)
            settled = None if self.settle is None else False
            coordinates = rng.particles * start.shape[1]
            runs = [
                AutoRun(self.step_size, rng.particles, settled=settled, coordinates=coordinates)
                for _ in rng.generators
            ]
            _fail_non_finite(runs, state.position, "start")
        else:
            runs = with_runs(AutoRun, snapshot, start.device)
            state = AutoState.at(start, torch.zeros_like(start))
            state = with_fields("state", state, snapshot.tensors)
            set_generators(rng.generators, snapshot.tensors["generators"])
        begun = begun_pass(snapshot)
        batches = MiniBatches(target) if schedule.on_batches else None
        while going := [i for i, run in enumerate(runs) if run.outcome == "running"]:
            everyone = len(going) == len(runs)
            rows = island_rows(going, rng.particles)
            part = state if everyone else AutoState(*(field[rows] for field in state))
            some = [runs[i] for i in going]
            noise = rng.select(going)
            moves = [run.frozen_moves for run in some]
            offer = partial(_offer, checkpointer, state, part, rows, runs, rng.generators)
            _advance(schedule, noise, part, some, target, batches, self.most_epochs, begun, offer)
            begun = None
            if self.settle is not None:
                _watch(noise, part, some, target, moves)
            if not everyone:
                for field, fresh in zip(state, part, strict=True):
                    field[rows] = fresh
            for i in going:
                if runs[i].outcome == "running":
                    _note_virial(runs[i], schedule, state, i)
                    if self._is_over(runs[i]):
                        _finish(runs[i], state, i)
            checkpointer.offer_snapshot("auto", partial(snapshot_of, state, runs, rng.generators))
            if report is not None:
                report(runs)
        checkpointer.discard("auto")
        return runs

    def _schedule(self, examples: int, *, streamed: bool) -> Schedule:
        """What the epochs are spent on; all that there may be, if few ones hold no exact moves."""
        schedule = schedule_of(examples, self.epochs, streamed=streamed)
        if schedule.exact:
            return schedule
        return schedule_of(examples, self.most_epochs, streamed=streamed)

    def _is_over(self, run: AutoRun) -> bool:
        """Whether an island ends here; notes whether it has settled."""
        # One more move is made after the decision, so that the final positions, which the posterior
        # consists of, are not those that the decision was made by.
        decided = bool(run.settled)
        if self.settle is not None:
            run.settled = decided or run.has_settled(self.settle)
        return decided or run.epochs >= self.most_epochs


def _watch(
    rng: IslandNoise,
    state: AutoState,
    runs: Sequence[AutoRun],
    target: Target,
    moves_before: Sequence[int],
) -> None:
    """Note the predictions of islands that have just made a move at a frozen step size."""
    moved = [i for i, run in enumerate(runs) if run.frozen_moves > moves_before[i]]
    if not moved or rng.particles < 2:
        return
    rows = island_rows(moved, rng.particles).to(state.position.device)
    predictions = watched_predictions(target, state.position[rows])
    if predictions is not None:
        for i, values in zip(moved, predictions.cpu().split(rng.particles), strict=True):
            runs[i].note_predictions(values)


def _advance(
    schedule: Schedule,
    rng: IslandNoise,
    state: AutoState,
    runs: Sequence[AutoRun],
    target: Target,
    batches: MiniBatches | None,
    most_epochs: int,
    begun: Snapshot | None,
    offer: Callable[[Snapshot], None],
) -> None:
    """One pass, one evaluation, one step or one move for islands that are equally far.

    Islands go through the dynamics side by side. Exact moves may differ in length, but then all
    islands are past the dynamics. A pass goes on from where it was `begun`, and `offer` is given
    what it needs for that.
    """
    made, half = runs[0].epochs, schedule.epochs / 2
    if made < schedule.on_batches:
        assert batches is not None
        pass_over_batches(
            rng,
            state,
            runs,
            batches,
            batch_size=_batch_size(batches),
            blocks=getattr(target, "blocks", (state.position.shape[1],)),
            passes=schedule.on_batches,
            half=half,
            begun=begun,
            offer=offer,
        )
    elif made == schedule.on_batches:
        value, gradient = target(state.position)
        state.log_likelihood.copy_(value)
        state.gradient.copy_(gradient)
        for run in runs:
            run.epochs += 1
        both = torch.cat([gradient, value.to(gradient).unsqueeze(-1)], -1)
        _fail_non_finite(runs, both, "log likelihood or gradient")
    elif made < schedule.dynamics:
        step_on_all_data(
            rng,
            state,
            runs,
            target,
            made=made - schedule.on_batches - 1,
            steps=schedule.on_all_data - 1,
            half=half,
        )
    else:
        if made == schedule.dynamics:
            for run in runs:
                hand_on_step_size(run)
        # The budget is spent to the last epoch before a run is extended.
        ends = [schedule.epochs if r.epochs < schedule.epochs else most_epochs for r in runs]
        make_exact_moves(rng, state, runs, target, tuned_until=schedule.tuned_until, ends=ends)


def _batch_size(batches: MiniBatches) -> int:
    """Examples of a mini-batch; of a stream, few enough to be held."""
    size = batch_size_of(len(batches))
    if batches.stream is None:
        return size
    few = batches.stream.examples
    row = sum(leaf[:1].nbytes for leaf in leaves(few.inputs))
    return max(BATCH_SIZE, min(size, STREAMED_BYTES // max(1, row)))


def _offer(
    checkpointer: Checkpointer,
    state: AutoState,
    going: AutoState,
    rows: Tensor,
    runs: Sequence[AutoRun],
    generators: Sequence[torch.Generator],
    begun: Snapshot,
) -> None:
    """Offer the snapshot of a pass that has begun, in which `rows` of the state are going."""

    def make() -> Snapshot:
        fields = zip(state, going, strict=True)
        whole = AutoState(*(old.index_copy(0, rows.to(old.device), new) for old, new in fields))
        return with_begun_pass(snapshot_of(whole, runs, generators), begun)

    checkpointer.offer_snapshot("auto", make)


def _note_virial(run: AutoRun, schedule: Schedule, state: AutoState, island: int) -> None:
    """See how far from equilibrium the positions are, once exact moves have begun."""
    if run.epochs > schedule.dynamics > schedule.on_batches:
        rows = slice(island * run.particles, (island + 1) * run.particles)
        position = state.position[rows]
        pull = (position * (position - state.gradient[rows])).double()
        run.virial = float(pull.mean())


def _finish(run: AutoRun, state: AutoState, island: int) -> None:
    """Keep the final positions."""
    rows = slice(island * run.particles, (island + 1) * run.particles)
    run.draws = [state.position[rows].clone()]
    run.outcome = "completed"
    if run.settling is None:
        run.settled = None


def _fail_non_finite(runs: Sequence[AutoRun], values: Tensor, name: str) -> None:
    """Islands with values that are not finite have failed, and no others."""
    bad = ~torch.isfinite(values).all(-1).view(len(runs), -1)
    for run, count in zip(runs, bad.sum(1).tolist(), strict=True):
        if count:
            run.outcome = "failed"
            run.message = f"{name} not finite for {count} of {run.particles} particles"
