"""Samples the islands of a job: plans batches, opens the checkpoint, and runs the executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor

from sbmc.islands.checkpoints import Checkpoint, CheckpointAt, locked_checkpoint
from sbmc.islands.checkpoints.pilot import read_pilot, write_pilot
from sbmc.islands.executors import Executor
from sbmc.islands.island import Island
from sbmc.islands.job import Batch, Job, plan_batches
from sbmc.islands.memory_budget import Memory
from sbmc.islands.process_memory import format_bytes
from sbmc.islands.scheduler import run_batches
from sbmc.randomness import Stream, generator
from sbmc.samplers.noise import IslandNoise


class Sampled(NamedTuple):
    """The islands of a run, and what its pilot learned."""

    islands: list[Island]  # in order
    pilot: dict[str, Any]  # `pilot_epochs`, `pilot_forward_epochs`, `frozen`; empty without one
    resumed: bool  # whether a part of it was done in an earlier run


def sample_islands(
    job: Job,
    numbers: Sequence[int],
    *,
    executor: Executor,
    location: CheckpointAt | None,
    identity: Mapping[str, Any],
    retries: int,
    progress: bool | None,
    memory: Memory | None = None,
    keep: Callable[[Island], Island] | None = None,
) -> Sampled:
    """Run the islands that have not ended in an earlier run.

    Args:
        job: what the islands need to run.
        numbers: the numbers of the islands.
        executor: runs their batches.
        location: where checkpoints are saved; None for none.
        identity: what decides the result. A checkpoint of another run is refused by it.
        retries: how often an island that was lost is tried again.
        progress: None for automatic, False for silence, True for always.
        memory: the forecast, to be shown when the run begins.
        keep: what becomes of an island that has ended; it stays in memory if None.

    Returns:
        The islands, and what a pilot run learned, with the sampler that follows from it.

    Raises:
        BadInput: the checkpoint belongs to another run, is damaged, or is used by another process.
    """
    population = job.sampler.population(job.particles)

    def plan_for(islands: Sequence[int]) -> list[Batch]:
        fold = executor.fold if executor.folds else 1
        return plan_batches(islands, len(job.priors), population, fold)

    with locked_checkpoint(location):
        checkpoint = None
        threads = executor.threads_each
        if location is not None:
            needed = bytes_on_disk(job, population, len(numbers))
            needed += 0 if memory is None else memory.disk
            checkpoint = Checkpoint.open(
                location, dict(identity), numbers, plan_for, threads, needed, keep
            )
            # Threads decide the last bits where an operation is split among them.
            threads = checkpoint.threads
        job, pilot = _after_pilot(replace(job, threads=threads), checkpoint)
        finished = {} if checkpoint is None else _on_device(checkpoint.finished(), job)
        islands = run_batches(
            job,
            plan_for(numbers) if checkpoint is None else checkpoint.open_batches(),
            executor=executor,
            checkpoint=checkpoint,
            retries=retries,
            progress=progress,
            finished=finished,
            expected="" if memory is None else f"memory: {format_bytes(memory.expected)} at most",
            keep=keep,
        )
    retried = any(island.report.attempts > 1 for island in islands)
    return Sampled(islands, pilot, resumed=bool(finished) or retried)


def bytes_on_disk(job: Job, population: int, islands: int) -> int:
    """About how much space snapshots and results take: positions, gradients, draws, times two."""
    vectors = job.sampler.snapshot_vectors
    return int(2 * islands * population * vectors * job.engine.width)


def _on_device(finished: Mapping[int, Island], job: Job) -> dict[int, Island]:
    """Islands as they were read from files, on the device on which the others are computed."""
    device = job.priors[0].mean.device

    def moved(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else tensor.to(device)

    return {
        index: replace(island, positions=moved(island.positions), weights=moved(island.weights))
        for index, island in finished.items()
    }


def _after_pilot(job: Job, checkpoint: Checkpoint | None) -> tuple[Job, dict[str, Any]]:
    """Run the pilot, if the sampler has one, with a random stream that no island uses."""
    sampler = job.sampler
    if not sampler.pilot:
        return job, {}
    learned = None if checkpoint is None else read_pilot(checkpoint.store, sampler.check_learned)
    if learned is None:
        rng = generator(job.seed, Stream.PILOT)
        target = job.target(0)
        start = job.start(target.prior, rng, sampler.population(job.particles))
        noise = IslandNoise([rng], job.particles, target.prior.mean.device)
        learned = sampler.learn(target, noise, start)
        if checkpoint is not None:
            write_pilot(checkpoint.store, learned)
    frozen = sampler.frozen_with(learned)
    cost_and_settings = {
        "pilot_epochs": learned["epochs"],
        "pilot_forward_epochs": learned["forward_epochs"],
        "frozen": frozen,
    }
    return replace(job, sampler=frozen), cost_and_settings
