"""The loop around a Markov chain: budgets, step-size adaptation, finite checks, draws.

It is given the `init` and `step` of an algorithm. Islands in one batch have their own step sizes,
budgets and noise. A finished island is removed from the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sbmc.samplers.adaptation import FIRST_GUESS, SEARCH_PROBES, StepSearch, adapted
from sbmc.samplers.chain_settings import ChainSettings
from sbmc.samplers.launch import Launch, not_launched
from sbmc.samplers.noise import IslandNoise, island_rows
from sbmc.samplers.snapshot import (
    NO_CHECKPOINTS,
    Checkpointer,
    Flat,
    Snapshot,
    set_generators,
    snapshot_of,
    with_fields,
    with_runs,
)
from sbmc.target.target import Target


@dataclass
class ChainRun:
    """One island's progress and, at the end, its result.

    Attributes:
        step_size: in whitened units.
        epochs: evaluations with gradient per particle so far.
        steps: steps made.
        draws: kept positions, each `(particles, dim)`, whitened.
        acceptance: mean acceptance of each step: of the particles with the island's step size that
            were not launched in it, or of all if there were none.
        leapfrog: evaluations of each step.
        non_finite: proposals that were not finite.
        outcome: `completed`, `failed`, or `running`.
        message: why it failed.
        forward_epochs: evaluations without gradient per particle so far.
        launches: how many launches every particle has made.
        sampling_steps: steps made after warm-up.
        accepted_sum: acceptance probabilities of each particle, summed over the steps after
            warm-up, `(particles,)` float64; None for a run that has not begun.
        launched: which particles have made all their launches, `(particles,)` bool; None if the
            sampler launches none.
        launch_counts: how many launches each particle has made, `(particles,)` int64, or None.
        launch_shrinks: how often each particle's own step size was shrunk, `(particles,)` int64, or
            None; see `launch`.
    """

    step_size: float
    epochs: int = 0
    steps: int = 0
    warm_steps: int = 0
    draws: list[Tensor] = field(default_factory=list)
    acceptance: list[float] = field(default_factory=list)
    leapfrog: list[int] = field(default_factory=list)
    non_finite: int = 0
    outcome: str = "running"
    message: str = ""
    forward_epochs: int = 0
    launches: int = 0
    sampling_steps: int = 0
    accepted_sum: Tensor | None = None
    launched: Tensor | None = None
    launch_counts: Tensor | None = None
    launch_shrinks: Tensor | None = None

    @property
    def particle_acceptance(self) -> Tensor | None:
        """Mean acceptance of each particle after warm-up; None if there were no such steps."""
        if self.accepted_sum is None or self.sampling_steps == 0:
            return None
        return self.accepted_sum / self.sampling_steps

    @property
    def launch(self) -> Launch | None:
        """The launches of its particles; None if the sampler launches none."""
        if self.launch_counts is None or self.launch_shrinks is None:
            return None
        return Launch(self.launch_counts, self.launch_shrinks)

    def set_launch(self, launch: Launch, settings: ChainSettings) -> None:
        """Set the launches of its particles."""
        self.launch_counts, self.launch_shrinks = launch
        self.launched = ~launch.due(settings)
        self.launches = int(launch.counts.min())

    @property
    def spent(self) -> int:
        """Evaluations per particle so far, with and without gradient: what a budget counts."""
        return self.epochs + self.forward_epochs

    def spend(self, evaluations: int, settings: ChainSettings) -> None:
        """Count evaluations, with or without gradient as the algorithm makes them."""
        if settings.with_gradient:
            self.epochs += evaluations
        else:
            self.forward_epochs += evaluations

    @property
    def sampling_acceptance(self) -> float:
        """Mean acceptance after warm-up, or of all steps if there were none after it."""
        after = self.acceptance[self.warm_steps :] or self.acceptance
        return sum(after) / len(after) if after else float("nan")


def run_chains(
    settings: ChainSettings,
    init: Callable[[Tensor, Target], Any],
    step: Callable[..., tuple[Any, Any]],
    target: Target,
    rng: IslandNoise,
    start: Tensor,
    report: Callable[[list[ChainRun]], None] | None = None,
    checkpointer: Checkpointer = NO_CHECKPOINTS,
) -> list[ChainRun]:
    """Run a batch of islands to the end of their steps or budget.

    Args:
        settings: the algorithm's settings.
        init: `(position, target) -> state`.
        step: `(rng, state, target, step_size=) -> (state, info)`; also with `leapfrog=` if the
            settings say that it `takes_leapfrog`, and with `launching=` if particles are launched.
        target: log likelihood and, if the algorithm needs it, gradient.
        rng: the islands' noise.
        start: whitened positions `(islands * particles, dim)`.
        report: called after every step with all runs.
        checkpointer: is offered a snapshot named "chains" before the first step and after every
            step. The state and the runs have to hold all that the next step depends on.

    Returns:
        One run per island. An island whose start is not finite has failed.
    """
    particles = rng.particles
    snapshot = checkpointer.restore("chains")
    if snapshot is None:
        state, runs = _begin(settings, init, step, target, rng, start)
        checkpointer.offer_snapshot("chains", partial(snapshot_of, state, runs, rng.generators))
    else:
        state, runs = _continue(snapshot, settings, init, target, rng, start)
    while active := [i for i, run in enumerate(runs) if _unfinished(run, settings)]:
        noise = rng.select(active)
        jitter = noise.uniform_per_island().tolist()
        next_steps = [
            settings.next_step(runs[i].step_size, u, _remaining(runs[i], settings))
            for i, u in zip(active, jitter, strict=True)
        ]
        rows = island_rows(active, particles)
        launching = torch.stack([_launched_next(runs[i], settings, particles) for i in active])
        sizes = noise.per_particle([next_step.step_size for next_step in next_steps])
        new_state, info = step(
            noise,
            type(state)(*(f[rows] for f in state)),
            target,
            step_size=sizes * _scales([runs[i] for i in active], settings, sizes),
            **_leapfrog(settings, noise, [next_step.evaluations for next_step in next_steps]),
            **({"launching": launching.flatten().to(rng.device)} if launching.any() else {}),
        )
        for rows_of_state, new_rows in zip(state, new_state, strict=True):
            rows_of_state[rows] = new_rows
        acceptance, accepted, non_finite = (
            each.view(len(active), particles).cpu()
            for each in (info.acceptance, info.accepted, info.non_finite)
        )
        means = info.acceptance.view(len(active), particles).mean(1).tolist()
        for k, i in enumerate(active):
            counts = int(next_steps[k].evaluations), int(non_finite[k].sum())
            taken = _Step(*counts, means[k], acceptance[k], accepted[k], launching[k])
            _after_step(runs[i], settings, taken)
            _save_draw(runs[i], settings, state.position[i * particles : (i + 1) * particles])
        _fail_non_finite(runs, state, particles)
        checkpointer.offer_snapshot("chains", partial(snapshot_of, state, runs, rng.generators))
        if report is not None:
            report(runs)
    checkpointer.discard("chains")
    for run in runs:
        if run.outcome == "running":
            run.outcome = "completed"
    return runs


def _begin(
    settings: ChainSettings,
    init: Callable[[Tensor, Target], Any],
    step: Callable[..., tuple[Any, Any]],
    target: Target,
    rng: IslandNoise,
    start: Tensor,
) -> tuple[Any, list[ChainRun]]:
    """Evaluate the start, and search for the first step sizes if they are not given."""
    first_size = float(settings.step_size or min(FIRST_GUESS, settings.largest_step))
    runs = [ChainRun(step_size=first_size) for _ in rng.generators]
    for run in runs:
        run.accepted_sum = torch.zeros(rng.particles, dtype=torch.float64)
        if settings.launched:
            run.set_launch(not_launched(rng.particles), settings)
    counts = target.evaluations
    before = counts.gradient + counts.forward
    state = init(start, target)
    for run in runs:
        run.spend((counts.gradient + counts.forward - before) // len(start), settings)
    _fail_non_finite(runs, state, rng.particles)
    if settings.step_size is None:
        _search_step_sizes(runs, settings, step, state, target, rng)
    return state, runs


def _continue(
    snapshot: Snapshot,
    settings: ChainSettings,
    init: Callable[[Tensor, Target], Any],
    target: Target,
    rng: IslandNoise,
    start: Tensor,
) -> tuple[Any, list[ChainRun]]:
    """Restore state, runs and generators; the generators last, since `init` may draw from them."""
    flat: Any = Flat(target)
    state = with_fields("state", init(start, flat), snapshot.tensors)
    runs = with_runs(ChainRun, snapshot, start.device)
    for run in runs:
        if settings.launched and run.launch is None:
            # The snapshot is of a version that launched all particles of an island together.
            run.set_launch(not_launched(rng.particles, run.launches), settings)
    set_generators(rng.generators, snapshot.tensors["generators"])
    return state, runs


def _unfinished(run: ChainRun, settings: ChainSettings) -> bool:
    if run.outcome != "running":
        return False
    if settings.steps is not None:
        return run.steps < settings.steps
    assert settings.epochs is not None
    return run.spent < settings.epochs


def _remaining(run: ChainRun, settings: ChainSettings) -> int | None:
    """Evaluations that remain of a budget, if there is one."""
    return None if settings.epochs is None else settings.epochs - run.spent


def _in_warmup(run: ChainRun, settings: ChainSettings) -> bool:
    if settings.steps is not None:
        return run.steps < settings.warmup * settings.steps
    assert settings.epochs is not None
    return run.spent < settings.warmup * settings.epochs


def _launched_next(run: ChainRun, settings: ChainSettings, particles: int) -> Tensor:
    """Which particles are launched in the next step, `(particles,)` bool."""
    if run.launch is None or not _in_warmup(run, settings):
        return torch.zeros(particles, dtype=torch.bool)
    return run.launch.due(settings)


def _scales(runs: list[ChainRun], settings: ChainSettings, sizes: Tensor) -> Tensor | float:
    """The step size of each particle in units of its island's, for all of `runs`."""
    scales = [run.launch.scale(settings) for run in runs if run.launch is not None]
    return torch.cat(scales).to(sizes) if scales else 1.0


class _Step(NamedTuple):
    """The outcome of a step for one island; the axis of the tensors is the particle."""

    evaluations: int
    non_finite: int
    mean: float
    acceptance: Tensor
    accepted: Tensor
    launching: Tensor


def _after_step(run: ChainRun, settings: ChainSettings, taken: _Step) -> None:
    """Count a step and adapt the step size."""
    warming = _in_warmup(run, settings)
    acceptance = _steering_acceptance(run, taken) if warming else taken.mean
    run.steps += 1
    run.spend(taken.evaluations, settings)
    run.acceptance.append(acceptance)
    run.leapfrog.append(taken.evaluations)
    run.non_finite += taken.non_finite
    if not warming:
        # A new tensor each time, since snapshots hold the old one.
        before = (
            torch.zeros_like(taken.acceptance) if run.accepted_sum is None else run.accepted_sum
        )
        run.accepted_sum = before + taken.acceptance.double()
        run.sampling_steps += 1
        return
    run.warm_steps = run.steps
    factor = None
    if run.launch is not None:
        launch, factor = run.launch.after(settings, taken.launching, taken.accepted)
        run.set_launch(launch, settings)
    # The acceptance of a launch depends on the distance of the start from equilibrium, not on ε.
    if factor is None:
        factor = adapted(settings, 1.0, acceptance)
    run.step_size = min(run.step_size * factor, settings.largest_step)


def _steering_acceptance(run: ChainRun, taken: _Step) -> float:
    """Mean acceptance of the particles that use the island's step size and are not launched."""
    if run.launch is None:
        return taken.mean
    steering = taken.acceptance[~taken.launching & (run.launch.shrinks == 0)]
    all_or_none = len(steering) in (0, len(taken.acceptance))
    return taken.mean if all_or_none else float(steering.mean())


def _save_draw(run: ChainRun, settings: ChainSettings, position: Tensor) -> None:
    """Add the state to the draws: the last `draws` states, `thinning` steps apart."""
    if settings.draws == 1:
        run.draws = [position.clone()] if _unfinished(run, settings) is False else []
        return
    total = settings.steps
    if total is None:
        # The number of evaluations per step is fixed here, so that the remaining steps are known.
        assert settings.epochs is not None
        remaining = -(-(settings.epochs - run.spent) // run.leapfrog[0])
    else:
        remaining = total - run.steps
    if remaining % settings.thinning == 0 and remaining // settings.thinning < settings.draws:
        run.draws.append(position.clone())


def _fail_non_finite(runs: list[ChainRun], state: Any, particles: int) -> None:
    """Fail islands whose state is not finite; a rejected proposal is no failure."""
    good = torch.isfinite(state.log_likelihood)
    if hasattr(state, "gradient"):
        good = good & torch.isfinite(state.gradient).all(-1)
    for run, bad in zip(runs, (~good).view(len(runs), particles).sum(1).tolist(), strict=True):
        if bad and run.outcome == "running":
            run.outcome = "failed"
            run.message = (
                f"log likelihood or gradient not finite for {bad} of {particles} particles "
                f"after {run.steps} steps"
            )


def _search_step_sizes(
    runs: list[ChainRun],
    settings: ChainSettings,
    step: Callable[..., tuple[Any, Any]],
    state: Any,
    target: Target,
    rng: IslandNoise,
) -> None:
    """Find each island's first step size: the largest for which single steps are mostly accepted.

    See `StepSearch`. The probes are steps of one evaluation. Their moves are discarded, and their
    evaluations are counted.
    """
    particles = rng.particles
    first, aim, largest = runs[0].step_size, settings.search_acceptance, settings.largest_step
    searches = {
        i: StepSearch(first, aim, largest) for i, run in enumerate(runs) if run.outcome == "running"
    }
    for _ in range(SEARCH_PROBES):
        active = [
            i for i, search in searches.items() if not search.done and _can_probe(runs[i], settings)
        ]
        if not active:
            break
        rows = island_rows(active, particles)
        noise = rng.select(active)
        _, info = step(
            noise,
            type(state)(*(f[rows] for f in state)),
            target,
            step_size=noise.per_particle([searches[i].trial for i in active]),
            **_leapfrog(settings, noise, [1] * len(active)),
        )
        acceptance = info.acceptance.view(len(active), particles).mean(1).tolist()
        for i, value in zip(active, acceptance, strict=True):
            runs[i].spend(1, settings)
            searches[i].update(value)
    for i, search in searches.items():
        runs[i].step_size = search.result


def _can_probe(run: ChainRun, settings: ChainSettings) -> bool:
    """Whether the search may continue: at least half of a budget is left for sampling."""
    return settings.epochs is None or run.spent < settings.epochs / 2


def _leapfrog(settings: ChainSettings, rng: IslandNoise, counts: list[int]) -> dict[str, Tensor]:
    """The argument for the leapfrog steps, if the sampler has any."""
    return {"leapfrog": rng.per_particle(counts).long()} if settings.takes_leapfrog else {}
