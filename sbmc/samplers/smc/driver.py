"""The loop of tempered SMC: from the prior to the posterior, islands in one batch.

Each island has its own temperatures, step size, noise and end. A finished island keeps its rows in
the batch, and the others continue without it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sbmc.samplers.adaptation import FIRST_GUESS, SEARCH_PROBES, StepSearch, adapted
from sbmc.samplers.kernel import Kernel
from sbmc.samplers.noise import IslandNoise, island_rows
from sbmc.samplers.smc.diagnostics import SMCRun, describe_collapse
from sbmc.samplers.smc.increments import AdaptiveIncrement, Increment, Schedule
from sbmc.samplers.smc.mutation import Mutation
from sbmc.samplers.smc.resampling import RESAMPLING
from sbmc.samplers.smc.tempering import (
    Select,
    SMCInfo,
    SMCState,
    first_state,
    next_temperatures,
    select_always,
    select_below,
    tempered_step,
)
from sbmc.samplers.smc.waste_free import WasteFreeMutation
from sbmc.samplers.snapshot import (
    NO_CHECKPOINTS,
    Checkpointer,
    Flat,
    Snapshot,
    generator_states,
    set_generators,
    snapshot_of,
    with_fields,
    with_runs,
)
from sbmc.target.target import Target

if TYPE_CHECKING:
    from sbmc.samplers.smc.settings import SMC

Report = Callable[[list[SMCRun]], None]


def run_smc(
    settings: SMC,
    target: Target,
    rng: IslandNoise,
    start: Tensor,
    report: Report | None = None,
    checkpointer: Checkpointer = NO_CHECKPOINTS,
) -> list[SMCRun]:
    """Run a batch of islands from draws of the prior to temperature 1.

    Args:
        settings: settings of the algorithm.
        target: log likelihood, and gradient if the moves need it.
        rng: the islands' noise.
        start: draws from the prior, whitened, `(islands * population, dim)`.
        report: called after every temperature with all runs.
        checkpointer: is offered a snapshot named "smc" before every temperature, and one named
            "mutation", on top of it, after every move. A run that continues from it computes
            weights and ancestors again.

    Returns:
        One run per island. An island that could not be finished has a message, and does not stop
        the others.
    """
    kernel = settings.move
    snapshot = checkpointer.restore("smc")
    state, runs = _begin(kernel, target, rng, start, snapshot)
    increment, resample = _increment(settings), _resampling(settings, rng.particles)
    searched = (
        kernel.step_size is not None or settings.step_sizes is not None or snapshot is not None
    )
    _end_non_finite(runs, state)
    while running := [i for i, run in enumerate(runs) if run.outcome == "running"]:
        part = _take(state, running)
        ahead = next_temperatures(part, increment)
        _end_unable([runs[i] for i in running], part.temperature, ahead, settings.most_temperatures)
        able = [k for k, i in enumerate(running) if runs[i].outcome == "running"]
        if not able:
            continue
        running = [running[k] for k in able]
        part, noise, active = _take(part, able), rng.select(running), [runs[i] for i in running]
        if not searched:
            _search_step_sizes(active, kernel, part, ahead[able], target, noise)
            searched = True
        if snapshot is None:
            # The snapshot may be made while the moves draw noise, so the generators are copied now.
            before = generator_states(rng.generators)
            checkpointer.offer_snapshot("smc", partial(snapshot_of, state, runs, before))
        # The snapshot from which a run continues is on the stack already, below that of its moves.
        snapshot = None
        part, info = tempered_step(
            noise,
            part,
            increment=increment,
            resample=resample,
            move=_mutation(settings, target, active, checkpointer),
        )
        state = _put(state, running, part)
        for k, run in enumerate(active):
            _note(run, settings, part, info, k)
        _end_non_finite(runs, state)
        _end_finished(runs, state)
        if report is not None:
            report(runs)
    checkpointer.discard("smc")
    return runs


def _begin(
    kernel: Kernel, target: Target, rng: IslandNoise, start: Tensor, snapshot: Snapshot | None
) -> tuple[SMCState, list[SMCRun]]:
    """State and runs at temperature 0, or those of `snapshot`; then the generators are set too."""
    islands = len(rng.generators)
    if snapshot is not None:
        flat: Any = Flat(target)
        state = with_fields(
            "state", first_state(kernel.begin(start, flat), islands), snapshot.tensors
        )
        set_generators(rng.generators, snapshot.tensors["generators"])
        return state, with_runs(SMCRun, snapshot, start.device)
    state = first_state(kernel.begin(start, target), islands)
    runs = [SMCRun(step_size=float(kernel.step_size or FIRST_GUESS)) for _ in range(islands)]
    for run in runs:
        _spend(run, kernel, len(start) // islands // rng.particles)
    return state, runs


def _increment(settings: SMC) -> Increment:
    if settings.temperatures is not None:
        return Schedule(settings.temperatures)
    return AdaptiveIncrement(settings.ess)


def _resampling(settings: SMC, particles: int) -> Select:
    scheme = RESAMPLING[settings.resampling]
    if settings.resample_below is None:
        return select_always(scheme, particles)
    return select_below(scheme, settings.resample_below)


def _mutation(settings: SMC, target: Target, runs: list[SMCRun], checkpointer: Checkpointer) -> Any:
    sizes = [settings.step_size_at(run.steps, run.step_size) for run in runs]
    counts = [settings.mutations_at(run.steps) for run in runs]
    if settings.waste_free:
        # The ancestor is the first of a chain's M states.
        moves = [count - 1 for count in counts]
        return WasteFreeMutation(
            Mutation(settings.move, target, sizes, moves, checkpointer=checkpointer)
        )
    return Mutation(settings.move, target, sizes, counts, settings.eta, checkpointer=checkpointer)


def _note(run: SMCRun, settings: SMC, state: SMCState, info: SMCInfo, k: int) -> None:
    """Add a temperature to the run, and set the step size for the next."""
    used = settings.step_size_at(run.steps, run.step_size)
    run.temperatures.append(
        {
            "temperature": float(state.temperature[k]),
            "ess": float(info.ess[k]),
            "distinct": int(info.distinct[k]),
            "roots": len(state.roots[k].unique()),
            "acceptance": info.moves.acceptance[k],
            "mutations": info.moves.mutations[k],
            "step_size": used,
        }
    )
    run.log_evidence = float(state.log_evidence[k])
    run.particle_acceptance = torch.tensor(info.moves.by_particle[k], dtype=torch.float64)
    run.non_finite += info.moves.non_finite[k]
    _spend(run, settings.move, info.moves.evaluations[k])
    if settings.step_sizes is None:
        new = adapted(settings.move, used, info.moves.acceptance[k])
        run.step_size = min(new, settings.move.largest_step)
    else:
        run.step_size = used


def _spend(run: SMCRun, kernel: Kernel, evaluations: int) -> None:
    if kernel.with_gradient:
        run.epochs += evaluations
    else:
        run.forward_epochs += evaluations


def _end_non_finite(runs: list[SMCRun], state: SMCState) -> None:
    """End islands with likelihoods of NaN or +∞, or of zero for all particles."""
    values = state.particles.log_likelihood.view(len(runs), -1)
    for run, row in zip(runs, values, strict=True):
        bad = int((row.isnan() | row.isposinf()).sum())
        if run.outcome == "running" and (bad or bool(row.isneginf().all())):
            run.outcome = "non-finite"
            how_many = f"{bad} of {len(row)}" if bad else f"all {len(row)}"
            run.message = (
                f"log likelihood not finite for {how_many} particles "
                f"at temperature {run.temperature:.3g}"
            )


def _end_unable(
    runs: list[SMCRun], temperature: Tensor, ahead: Tensor, most_temperatures: int
) -> None:
    for run, now, then in zip(runs, temperature.tolist(), ahead.tolist(), strict=True):
        if not then > now:
            run.outcome = "stuck"
            run.message = (
                f"no temperature above {now:.3g} keeps the effective sample size: "
                f"the likelihoods of its particles are too far apart"
            )
        elif run.steps >= most_temperatures:
            run.outcome = "step-limit"
            run.message = f"temperature {now:.3g} after {run.steps} steps, the limit"


def _end_finished(runs: list[SMCRun], state: SMCState) -> None:
    population = state.log_weights.shape[1]
    for i, run in enumerate(runs):
        if run.outcome == "running" and float(state.temperature[i]) == 1:
            run.outcome = "completed"
            rows = slice(i * population, (i + 1) * population)
            run.draws = [state.particles.position[rows].clone()]
            run.log_weights = state.log_weights[i].clone()
            run.roots = state.roots[i].clone()
            run.collapsed = describe_collapse(run.draws[0], run.roots)


def _take(state: SMCState, islands: list[int]) -> SMCState:
    rows = island_rows(islands, state.log_weights.shape[1])
    particles = type(state.particles)(*(part[rows] for part in state.particles))
    return SMCState(particles, *(part[islands] for part in state[1:]))


def _put(state: SMCState, islands: list[int], part: SMCState) -> SMCState:
    rows = island_rows(islands, state.log_weights.shape[1])
    for field, new_rows in zip(state.particles, part.particles, strict=True):
        field[rows] = new_rows
    for field, new_rows in zip(state[1:], part[1:], strict=True):
        field[islands] = new_rows
    return state


def _search_step_sizes(
    runs: list[SMCRun],
    kernel: Kernel,
    state: SMCState,
    ahead: Tensor,
    target: Target,
    rng: IslandNoise,
) -> None:
    """Find each island's first step size at its first temperature, by single steps.

    The moves of the probes are discarded; their evaluations are counted.
    """
    aim = sum(kernel.acceptance_band) / 2
    first = min(FIRST_GUESS, kernel.largest_step)
    searches = [StepSearch(first, aim, kernel.largest_step) for _ in runs]
    population = state.log_weights.shape[1]
    rows = (torch.arange(len(runs)).unsqueeze(1) * population + torch.arange(rng.particles)).int()
    for _ in range(SEARCH_PROBES):
        active = [i for i, search in enumerate(searches) if not search.done]
        if not active:
            break
        # As many of an island's particles as it has chains: all of them, except in waste-free SMC.
        chosen = rows[active].flatten()
        _, info, costs = kernel.probe(
            rng.select(active),
            type(state.particles)(*(part[chosen] for part in state.particles)),
            target,
            step_sizes=[searches[i].trial for i in active],
            temperature=ahead[active],
        )
        # A particle of likelihood zero never moves, whatever the step size, so it is not counted.
        alive = ~state.particles.log_likelihood[chosen].isneginf()
        counted = alive.view(len(active), rng.particles).sum(1).clamp(min=1)
        summed = (info.acceptance * alive).view(len(active), rng.particles).sum(1)
        acceptance = (summed / counted).tolist()
        for k, i in enumerate(active):
            _spend(runs[i], kernel, costs[k])
            searches[i].update(acceptance[k])
    for run, search in zip(runs, searches, strict=True):
        run.step_size = search.result
