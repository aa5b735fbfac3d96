"""The loop around stochastic-gradient samplers: passes over the data, noise, finite checks, draws.

In each pass every particle goes through the data in an order of its own, in batches without
replacement; the last may be short. Data that are streamed are read once a pass, and the particles
of an island share the batches. A sampler whose passes come in pairs makes the second of a pair
backwards: batches 1 ... m, then m ... 1. The loop is given the algorithm's `init` and `step`; it
never mentions which algorithm it is. No step is rejected: there is no acceptance to report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from sbmc.checks import is_number, require, require_choice, require_count
from sbmc.samplers.contract import EvaluationCount, Sampler
from sbmc.samplers.inside_a_pass import Pace, begun_pass, with_begun_pass
from sbmc.samplers.noise import IslandNoise, PhiloxNoise
from sbmc.samplers.orders import BatchesInOrder
from sbmc.samplers.passes import draw_order, draw_seed, estimates_of_pass
from sbmc.samplers.remedies import Symptom, call_of, longer_run
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

# Where normal numbers come from.
NOISES = ("torch", "philox")

# Vectors of a position's size that a particle takes at the worst moment of a step; measured.
VECTORS_ON_BATCHES = 20


class StepInfo(NamedTuple):
    """What a step has to tell; the leading axis is the particle."""

    log_likelihood: Tensor  # (particles,) float64, estimated where the gradient was
    non_finite: Tensor  # (particles,) bool: positions that are not finite any more


@dataclass
class PassesRun:
    """One island's progress and, at the end, its result.

    Attributes:
        step_size: of the last pass, in the algorithm's own units.
        epochs: passes over the data so far.
        steps: mini-batch steps made.
        draws: kept positions, each `(particles, dim)`, whitened.
        acceptance: always empty: no step is ever rejected.
        non_finite: positions that are not finite; above 0, the island has failed.
        outcome: `completed`, `failed`, or `running`.
        message: why it failed.
        forward_epochs: always 0.
        sampling_steps: mini-batch steps made after warm-up.
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

    @property
    def sampling_acceptance(self) -> float:
        """There is none."""
        return float("nan")


@dataclass(frozen=True, kw_only=True)
class StochasticGradient(Sampler):
    """What all samplers on mini-batches have in common; not a sampler itself.

    Args:
        epochs: passes over the data.
        batch_size: examples per mini-batch; all of them, if there are fewer.
        step_size: ε, constant, with the meaning that the algorithm gives it.
        temperature: λ, the exponent on the likelihood. Above 1 the data count for more than they
            are: at the temperature T of a cold posterior, λ is 1/T with the prior variance T·v.
        warmup: the fraction of the passes of which no state is kept.
        draws: states kept of each chain, `thinning` passes apart, the last of them at the end.
            They stand as further particles in the posterior.
        thinning: passes from one kept state to the next.
        noise: where normal numbers come from: `"torch"` (the default), its generators, or
            `"philox"`, a stream in C that is several times faster. Both are good; their numbers
            differ.

    Raises:
        BadInput: a setting breaks its rule.
    """

    epochs: int = 160
    batch_size: int = 50
    step_size: float
    temperature: float = 1.0
    warmup: float = 0.5
    draws: int = 1
    thinning: int = 1
    noise: str | None = None

    independent_particles: ClassVar[bool] = True

    takes_streams = True

    # Whether passes come in pairs, the second of them backwards.
    paired = False

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "draws", "thinning"):
            value = getattr(self, name)
            require_count(name, value)
        rule = "an even number, since passes come in pairs"
        require(self.epochs % 2 == 0 or not self.paired, "epochs", rule, self.epochs)
        for name in ("step_size", "temperature"):
            value = getattr(self, name)
            good = is_number(value) and 0 < value < math.inf
            require(good, name, "positive and finite", value)
        if self.noise is not None:
            require_choice("noise", self.noise, NOISES)
        good = is_number(self.warmup) and 0 <= self.warmup < 1
        require(good, "warmup", "in [0, 1)", self.warmup)
        kept = self.epochs - math.ceil(self.warmup * self.epochs)
        rule = f"few enough that draws x thinning fits in the {kept} passes after warm-up"
        fits = (self.draws - 1) * self.thinning < max(1, kept)
        require(fits, "draws", rule, (self.draws, self.thinning))

    def size_at(self, epoch: int) -> float:
        """The step size of pass `epoch`, counted from 0."""
        return self.step_size

    def evaluations(self) -> EvaluationCount:
        """One epoch for each pass."""
        return EvaluationCount(self.epochs, 0)

    @property
    def vectors(self) -> int:
        """Vectors of a particle; there is no state to go back to when a step is rejected."""
        return VECTORS_ON_BATCHES

    def short_run(self) -> Self:
        """One pass, or a pair of them: steps are small, and evaluations not all that they take."""
        return replace(self, epochs=2 if self.paired else 1, draws=1, thinning=1)

    @classmethod
    def remedies(
        cls, symptoms: Sequence[Symptom], settings: Mapping[str, Any], step_size: float | None
    ) -> tuple[str, ...]:
        """A longer run, whatever is wrong: nothing is rejected."""
        longer = call_of(cls, settings, longer_run(settings, StochasticGradient.epochs))
        return (f"Give the chains a longer run: {longer}.",)


def run_passes(
    settings: StochasticGradient,
    init: Callable[[IslandNoise, Tensor], Any],
    step: Callable[..., tuple[Any, StepInfo]],
    target: Target,
    rng: IslandNoise,
    start: Tensor,
    report: Callable[[list[PassesRun]], None] | None = None,
    checkpointer: Checkpointer = NO_CHECKPOINTS,
) -> list[PassesRun]:
    """Run a batch of islands through all passes over the data.

    Args:
        settings: the algorithm's settings.
        init: `(rng, position) -> state`.
        step: `(rng, state, estimate, step_size=) -> (state, info)`.
        target: the target on all data.
        rng: the islands' noise; the order of the data is drawn from it too.
        start: whitened positions `(islands * particles, dim)`.
        report: called after every pass with all runs.
        checkpointer: is offered a snapshot after every pass, and now and then inside one, as
            "passes".

    Returns:
        One run per island; those whose positions were not finite any more have failed, alone.
    """
    batches, pace = MiniBatches(target), Pace()
    if settings.noise == "philox":
        rng = PhiloxNoise(rng.generators, rng.particles, rng.device)
    runs = [PassesRun(step_size=settings.step_size) for _ in rng.generators]
    active, state = list(range(len(runs))), init(rng, start)
    order, first = torch.empty(len(start), 0), 0
    snapshot = checkpointer.restore("passes")
    if snapshot is not None:
        active, first = list(snapshot.values["active"]), snapshot.values["epochs"]
        runs = with_runs(PassesRun, snapshot, start.device)
        state = with_fields("state", state, snapshot.tensors)
        order = snapshot.tensors.get("order", order).to(start.device)
        set_generators(rng.generators, snapshot.tensors["generators"])
        if isinstance(rng, PhiloxNoise):
            streams = snapshot.tensors["streams"]
            rng = PhiloxNoise(rng.generators, rng.particles, rng.device, streams)
    begun = begun_pass(snapshot)
    for epoch in range(first, settings.epochs):
        if not active:
            break
        noise, size = rng.select(active), settings.size_at(epoch)
        backwards = settings.paired and epoch % 2 == 1
        if begun is None:
            done, broken = 0, torch.zeros(len(state.position), dtype=torch.bool)
            order = order if backwards else draw_order(noise, batches)
            seed = draw_seed(noise, batches)
        else:
            order, broken = begun.tensors["order"].to(start.device), begun.tensors["broken"]
            done, seed = begun.values["batches"], begun.values["seed"]
            batches.seen, begun = begun.values["seen"], None
        broken = broken.to(start.device)
        parts = BatchesInOrder(order, len(batches), settings.batch_size)
        # No value is looked at inside the loop: on a GPU, looking waits.
        for estimate in estimates_of_pass(
            batches, parts, settings.batch_size, seed=seed, done=done, backwards=backwards
        ):
            state, info = step(noise, state, estimate, step_size=size)
            broken |= info.non_finite
            done += 1
            if done < len(parts) and pace.due():
                inside = Snapshot(
                    {"order": order, "broken": broken},
                    {"batches": done, "seed": seed, "seen": batches.seen},
                )
                make = partial(_snapshot, state, runs, rng, list(active), epoch, None, inside)
                checkpointer.offer_snapshot("passes", make)
        lost = broken.view(len(active), rng.particles).sum(1).tolist()
        positions = state.position.view(len(active), rng.particles, -1)
        for i, bad, position in zip(active, lost, positions, strict=True):
            _after_pass(runs[i], settings, size, len(parts), bad, position)
        staying = [k for k, i in enumerate(active) if runs[i].outcome == "running"]
        if len(staying) < len(active):
            rows = _rows(staying, rng.particles).to(start.device)
            state = type(state)(*(part[rows] for part in state))
            order = order[rows] if batches.stream is None else order
            active = [active[k] for k in staying]
        # What the next pass takes backwards.
        again = order if settings.paired and not backwards else None
        make = partial(_snapshot, state, runs, rng, list(active), epoch + 1, again)
        checkpointer.offer_snapshot("passes", make)
        if report is not None:
            report(runs)
    checkpointer.discard("passes")
    for i in active:
        runs[i].outcome = "completed"
    return runs


def _snapshot(
    state: Any,
    runs: list[PassesRun],
    rng: IslandNoise,
    active: list[int],
    epochs: int,
    order: Tensor | None,
    inside: Snapshot | None = None,
) -> Snapshot:
    tensors, values = snapshot_of(state, runs, rng.generators)
    if isinstance(rng, PhiloxNoise):
        tensors["streams"] = rng.state
    if order is not None:
        tensors["order"] = order
    snapshot = Snapshot(tensors, {**values, "active": active, "epochs": epochs})
    return snapshot if inside is None else with_begun_pass(snapshot, inside)


def _after_pass(
    run: PassesRun,
    settings: StochasticGradient,
    size: float,
    steps: int,
    non_finite: int,
    position: Tensor,
) -> None:
    if run.epochs >= settings.warmup * settings.epochs:
        run.sampling_steps += steps
    run.epochs += 1
    run.steps += steps
    run.step_size = float(size)
    run.non_finite = non_finite
    if non_finite:
        run.outcome = "failed"
        run.message = (
            f"position not finite for {non_finite} of {len(position)} particles after "
            f"{run.epochs} passes; a smaller `step_size` may help"
        )
        return
    left = settings.epochs - run.epochs
    if left % settings.thinning == 0 and left // settings.thinning < settings.draws:
        run.draws.append(position.clone())


def _rows(islands: list[int], particles: int) -> Tensor:
    first = torch.tensor(islands, dtype=torch.int64).unsqueeze(1) * particles
    return (first + torch.arange(particles)).flatten()
