"""From work to islands: batches planned, the checkpoint opened, the executor set to work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sbmc.islands.checkpoints import Checkpoint, CheckpointAt, locked_checkpoint
from sbmc.islands.checkpoints.pilot import read_pilot, write_pilot
from sbmc.islands.executors import Executor
from sbmc.islands.island import Island
from sbmc.islands.memory import size_in_words
from sbmc.islands.memory_budget import Memory
from sbmc.islands.running import run_batches
from sbmc.islands.work import Batch, Work, plan_batches
from sbmc.randomness import Stream, generator
from sbmc.samplers.noise import IslandNoise


class Sampled(NamedTuple):
    """What came of it."""

    islands: list[Island]  # in order
    pilot: dict[str, Any]  # `pilot_epochs`, `pilot_forward_epochs`, `frozen`; empty without one
    resumed: bool  # whether a part of it was done before


def sample_islands(
    work: Work,
    numbers: Sequence[int],
    *,
    executor: Executor,
    location: CheckpointAt | None,
    identity: Mapping[str, Any],
    retries: int,
    progress: bool | None,
    memory: Memory | None = None,
) -> Sampled:
    """Run islands, or what is left of them.

    Args:
        work: what they do.
        numbers: which islands.
        executor: runs their batches.
        location: where they are written down, if anywhere.
        identity: what decides the result, for the checkpoint to compare.
        retries: how often an island that was lost is tried again.
        progress: None for automatic, False for silence, True for always.
        memory: what it is expected to take, to be said when it begins.

    Returns:
        The islands, and what a pilot run has to tell, the sampler that it left included.

    Raises:
        BadInput: the checkpoint is another run's, is damaged, or another process is at it.
    """
    population = work.sampler.population(work.particles)

    def plan(islands: Sequence[int]) -> list[Batch]:
        fold = executor.fold if executor.folds else 1
        return plan_batches(islands, len(work.priors), population, fold)

    with locked_checkpoint(location):
        checkpoint = None
        threads = executor.threads_each
        if location is not None:
            needed = bytes_on_disk(work, population, len(numbers))
            checkpoint = Checkpoint.open(location, dict(identity), numbers, plan, threads, needed)
            # Threads decide the last bits where an operation is split among them.
            threads = checkpoint.threads
        work, pilot = _after_pilot(replace(work, threads=threads), checkpoint)
        finished = {} if checkpoint is None else checkpoint.finished()
        islands = run_batches(
            work,
            plan(numbers) if checkpoint is None else checkpoint.open_batches(),
            executor=executor,
            checkpoint=checkpoint,
            retries=retries,
            progress=progress,
            finished=finished,
            expected="" if memory is None else f"memory: {size_in_words(memory.expected)} at most",
        )
    again = any(island.report.attempts > 1 for island in islands)
    return Sampled(islands, pilot, resumed=bool(finished) or again)


def bytes_on_disk(work: Work, population: int, islands: int) -> int:
    """About what states and results will take: positions, gradients, draws, and as much again."""
    vectors = work.sampler.snapshot_vectors
    return int(2 * islands * population * vectors * work.engine.width)


def _after_pilot(work: Work, checkpoint: Checkpoint | None) -> tuple[Work, dict[str, Any]]:
    """Learn what the sampler learns before islands run, by noise that none of them shares."""
    sampler = work.sampler
    if not sampler.pilot:
        return work, {}
    learned = None if checkpoint is None else read_pilot(checkpoint.store, sampler.check_learned)
    if learned is None:
        rng = generator(work.seed, Stream.PILOT)
        target = work.target(0)
        start = work.start(target.prior, rng, sampler.population(work.particles))
        noise = IslandNoise([rng], work.particles, target.prior.mean.device)
        learned = sampler.learn(target, noise, start)
        if checkpoint is not None:
            write_pilot(checkpoint.store, learned)
    frozen = sampler.frozen_with(learned)
    cost_and_settings = {
        "pilot_epochs": learned["epochs"],
        "pilot_forward_epochs": learned["forward_epochs"],
        "frozen": frozen,
    }
    return replace(work, sampler=frozen), cost_and_settings
