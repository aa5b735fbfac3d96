"""Predicts the peak memory of a run, and chooses chunks, folds and threads that stay in a limit.

The peak of a process that runs islands is the sum of

    what it holds before the run · the data that are prepared once · threads × what a chunk takes on
    its way through the model · the state of the chains that are folded into one batch · the
    results of the islands that have ended

After the last island the results are put together and converted for the posterior, which stores
them in a dtype of its own. Results that do not fit are in a mapped file instead, of which a process
holds one island at a time. The first term is measured. All others follow from shapes.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from sbmc.checks import Phrase, require
from sbmc.islands.checkpoints import CheckpointAt, saved_manifest
from sbmc.islands.cost import Cost
from sbmc.islands.executors import Executor, InProcess, Processes
from sbmc.islands.job import plan_batches
from sbmc.islands.particles_on_disk import scratch_folder
from sbmc.islands.process_memory import format_bytes, peak_bytes, release_memory, resident_bytes
from sbmc.log import logger
from sbmc.model.chunks import ACTIVATION_BYTES, Chunks
from sbmc.model.threads import torch_threads
from sbmc.samplers.contract import Sampler
from sbmc.storage.mapped import free_bytes
from sbmc.target.engine import LikelihoodEngine
from sbmc.target.memory_needs import bytes_of
from sbmc.target.minibatch import BATCH_BYTES

# Memory of libraries when they are first used, and of the stacks and pools of threads.
ALLOWANCE = 32 * 2**20
# Memory of a batch of predictions.
PREDICTION = 3 * ACTIVATION_BYTES
# Vectors of a position's size that the check of a run's health takes, however few particles there
# are: curvature and displacement, in float64. Measured on a network of ten million parameters.
HEALTH_VECTORS = 36
# And those that it takes for each further particle of the island that it looks at.
HEALTH_VECTORS_EACH = 12


@dataclass(frozen=True)
class Memory:
    """The memory of a run, and the choices that keep it within the limit.

    Attributes:
        expected: bytes of the largest process at its peak.
        limit: bytes that are allowed; None for no limit.
        held_before: bytes that this process held before the run.
        together: the largest number of islands in one batch.
        threads: threads of one batch.
        note: the choices as text; empty without a limit.
        disk: bytes of the files for finished particles that do not fit into memory; 0 if they fit.
    """

    expected: int
    limit: int | None
    held_before: int
    together: int
    threads: int
    note: str = ""
    disk: int = 0


@dataclass(frozen=True)
class RunSize:
    """What decides the memory of a run.

    Attributes:
        sampler: the algorithm's settings.
        particles: particles per island.
        numbers: the numbers of the islands.
        anchors: how many priors there are; the islands take them in turn.
        executor: runs the islands.
        location: where checkpoints are saved; None for none.
        size: examples per chunk, if the user gave it.
        limit: bytes that a process may take, if the user gave it.
        store_dtype: of the finished particles in the posterior; that of the run if None.
        on_disk: whether finished particles are in a mapped file rather than in memory.
    """

    sampler: Sampler
    particles: int
    numbers: range
    anchors: int
    executor: Executor
    location: CheckpointAt | None
    size: int | None
    limit: int | None
    store_dtype: torch.dtype | None = None
    on_disk: bool = False

    @property
    def population(self) -> int:
        """Positions of an island."""
        return self.sampler.population(self.particles)

    def states(self, engine: LikelihoodEngine, islands: int) -> int:
        """Bytes of the chains of so many islands, without activations."""
        sampler, positions = self.sampler, islands * self.population
        vectors = sampler.vectors + sampler.draws
        if self.location is not None:  # a snapshot is encoded before it is written
            vectors += 2 * sampler.snapshot_vectors
        further = sampler.further_bytes(positions, engine.dim, bytes_of(engine.examples))
        return positions * vectors * engine.width + further

    def results(self, engine: LikelihoodEngine, islands: int | None = None) -> int:
        """Bytes of the results of all islands, or of so many."""
        count = len(self.numbers) if islands is None else islands
        return count * self.population * self.sampler.draws * engine.width

    def stored(self, engine: LikelihoodEngine) -> int:
        """Bytes of all particles as the posterior stores them."""
        itemsize = engine.width // engine.dim
        stored = itemsize if self.store_dtype is None else self.store_dtype.itemsize
        return self.results(engine) // itemsize * stored

    def disk(self, engine: LikelihoodEngine) -> int:
        """Bytes of the files for finished particles: as they were sampled, and as stored."""
        return self.results(engine) + self.stored(engine) if self.on_disk else 0

    def peak(
        self, engine: LikelihoodEngine, evaluation: int, islands: int, held_before: int
    ) -> int:
        """Bytes of the largest process at its peak.

        Args:
            engine: the likelihood.
            evaluation: bytes of one evaluation, beyond data and particles.
            islands: how many are in one batch.
            held_before: bytes that this process held before the run.
        """
        busy = evaluation + self.states(engine, islands) + ALLOWANCE
        if self.sampler.batch_size is not None and not engine.limited:
            busy += 2 * BATCH_BYTES  # every chain has its own mini-batch, and its gradient
        health = HEALTH_VECTORS * engine.width
        if self.on_disk:
            # An island is read for the check of its health, and a few of its rows are converted.
            island = HEALTH_VECTORS_EACH * (self.population - 1) + self.sampler.draws
            held, after = 0, health + island * engine.width + PREDICTION
        else:
            held = self.results(engine)
            after = max(held + self.stored(engine) + PREDICTION, health)
        if isinstance(self.executor, InProcess):
            return held_before + held + max(busy, after)
        # The job is packed here and unpacked in the worker, and so is an island on its way back.
        sent = bytes_of(engine.examples) + engine.dim * 8
        if self.on_disk:
            held = 2 * self.results(engine, 1)
        return held_before + sent + max(busy + self.results(engine, 1), held + after)


def settle_memory(engine: LikelihoodEngine, run_size: RunSize) -> tuple[Executor, Memory]:
    """Choose chunks, threads and the size of a batch, and predict the memory of the run.

    Without a limit, the rules for speed decide. With a limit, first fewer islands are folded into
    a batch, then chunks become smaller and less data are prepared in advance, and at last fewer
    threads are used. What still does not fit may have its finished particles on disk, which changes
    no bit. A run that continues from a checkpoint uses the checkpoint's choices.

    Args:
        engine: the likelihood; its chunks are set here.
        run_size: the run.

    Returns:
        The executor with the fold and the threads that were chosen, and the memory of the run.

    Raises:
        BadInput: the run does not fit into the limit, or its finished particles on the disk.
    """
    held_before = resident_bytes()
    executor, limit = run_size.executor, run_size.limit
    manifest = None if run_size.location is None else saved_manifest(run_size.location)
    if manifest is not None:
        with torch_threads(manifest.threads):
            together = max([1, *map(len, manifest.batches)])
            memory = _as_checkpointed(engine, run_size, manifest, together, held_before)
            if limit is not None:  # further islands come in batches of at most the same size
                executor = _changed(executor, together * run_size.population, executor.threads_each)
            return executor, memory
    fold = executor.fold if executor.folds else 1
    batches = plan_batches(run_size.numbers, run_size.anchors, run_size.population, fold)
    together, threads = max(map(len, batches)), executor.threads_each
    if limit is None:
        with torch_threads(threads):
            engine.settle(size=run_size.size)
            taken = run_size.peak(
                engine, _evaluation(engine, run_size, together), together, held_before
            )
        return executor, Memory(taken, None, held_before, together, threads)
    run_size = _on_disk_if_needed(engine, run_size, held_before)
    with torch_threads(threads):
        usual = engine.needs.usual(run_size.size)
        while together > 1 and run_size.peak(engine, usual, together, held_before) > limit:
            together //= 2
        fits = run_size.peak(engine, usual, together, held_before) <= limit
    while threads > 1 and not fits and _least(engine, run_size, threads, held_before) > limit:
        threads -= 1
    least = _least(engine, run_size, threads, held_before)
    enough = f"at least {format_bytes(least)}, which this run takes with the smallest chunks"
    if run_size.particles > 1:
        enough += " (islands of fewer `particles` take less)"
    require(fits or least <= limit, "memory_limit", enough, Phrase(format_bytes(limit)))
    with torch_threads(threads):
        engine.settle(
            None if fits else limit - run_size.peak(engine, 0, together, held_before),
            size=run_size.size,
        )
        taken = run_size.peak(
            engine, _evaluation(engine, run_size, together), together, held_before
        )
    changed = _changed(executor, together * run_size.population, threads)
    if changed.threads_each != threads:  # the threads of this executor cannot be chosen
        require(taken <= limit, "memory_limit", enough, Phrase(format_bytes(limit)))
    memory = Memory(taken, limit, held_before, together, threads, disk=run_size.disk(engine))
    return changed, _described(engine, run_size, memory)


def _evaluation(engine: LikelihoodEngine, run_size: RunSize, islands: int) -> int:
    return engine.evaluation_bytes(islands * run_size.population)


def least_memory(engine: LikelihoodEngine, run_size: RunSize) -> int:
    """Bytes of the run with one island in a batch, the smallest chunks and one thread.

    Finished particles are on disk if that takes less.
    """
    held_before = resident_bytes()
    ways = (run_size, replace(run_size, on_disk=_may_be_on_disk(engine)))
    return min(_least(engine, way, 1, held_before) for way in ways)


def _may_be_on_disk(engine: LikelihoodEngine) -> bool:
    """Whether finished particles may be in a file: those on another device are not memory here."""
    return engine.examples.targets.device.type == "cpu"


def _on_disk_if_needed(engine: LikelihoodEngine, run_size: RunSize, held_before: int) -> RunSize:
    """The same run, with its finished particles on disk where they do not fit into memory."""
    assert run_size.limit is not None
    on_disk = replace(run_size, on_disk=_may_be_on_disk(engine))
    in_memory = _least(engine, run_size, 1, held_before)
    saves = _least(engine, on_disk, 1, held_before) < in_memory
    return on_disk if in_memory > run_size.limit and saves else run_size


def _least(engine: LikelihoodEngine, run_size: RunSize, threads: int, held_before: int) -> int:
    with torch_threads(threads):
        return run_size.peak(engine, engine.needs.least(run_size.size), 1, held_before)


def _as_checkpointed(
    engine: LikelihoodEngine, run_size: RunSize, manifest: Any, together: int, held_before: int
) -> Memory:
    """Use the choices that a checkpoint was begun with, whatever the rules say now."""
    chunks, size = None, run_size.size
    saved_chunks = manifest.identity.get("chunks")
    if (
        size is None
        and isinstance(saved_chunks, dict)
        and set(saved_chunks) == {f.name for f in fields(Chunks)}
    ):
        chunks = Chunks(**saved_chunks)
        if manifest.identity.get("kernel", "") is None:
            engine.without_kernel()
    least = engine.needs.least(size)
    room = None
    if run_size.limit is not None:
        room = max(least, run_size.limit - run_size.peak(engine, 0, together, held_before))
    engine.settle(room, chunks, size)
    taken = run_size.peak(engine, _evaluation(engine, run_size, together), together, held_before)
    if run_size.limit is not None and taken > run_size.limit:
        run_size = replace(run_size, on_disk=_may_be_on_disk(engine))
        evaluation = _evaluation(engine, run_size, together)
        taken = run_size.peak(engine, evaluation, together, held_before)
    disk = run_size.disk(engine)
    memory = Memory(taken, run_size.limit, held_before, together, manifest.threads, disk=disk)
    if run_size.limit is not None:
        rule = f"at least {format_bytes(taken)}, as the checkpoint was begun"
        require(taken <= run_size.limit, "memory_limit", rule, Phrase(format_bytes(run_size.limit)))
        memory = _described(engine, run_size, memory)
    return memory


def _changed(executor: Executor, fold: int, threads: int) -> Executor:
    """The same executor with another fold and other threads, if it has such settings."""
    names = {field.name for field in fields(executor)}  # type: ignore[arg-type]
    chosen: dict[str, Any] = {}
    if executor.folds:
        chosen["fold"] = fold
    if "threads" in names and threads != executor.threads_each:
        chosen["threads"] = threads
    return replace(executor, **chosen) if chosen else executor  # type: ignore[type-var]


def _described(engine: LikelihoodEngine, run_size: RunSize, memory: Memory) -> Memory:
    """The memory of a run with its choices in words, once the disk has room for what it takes."""
    assert memory.limit is not None
    chunks = engine.chunks
    note = (
        f"{format_bytes(memory.expected)} expected of {format_bytes(memory.limit)} "
        f"({format_bytes(memory.held_before)} before): {memory.together} islands in a batch, "
        f"{memory.threads} threads, chunks of {chunks.examples} examples and at most "
        f"{chunks.particles} particles"
    )
    if memory.disk:
        note += f", {_require_disk(run_size, memory)}"
    logger.debug("memory: %s", note)
    return replace(memory, note=note)


def _require_disk(run_size: RunSize, memory: Memory) -> str:
    """Refuse a disk that is too small; say what it is used for."""
    folder = scratch_folder(run_size.location)
    free = free_bytes(folder)
    place = folder or tempfile.gettempdir()
    rule = (
        f"larger, so that finished particles fit into memory, or the disk of {place!r} must have "
        f"{format_bytes(memory.disk)} free for them (a `checkpoint` or TMPDIR on a larger disk "
        "helps, and so do `store_dtype=torch.bfloat16` and fewer `islands` or `particles`)"
    )
    got = Phrase(f"{format_bytes(memory.limit or 0)} and {format_bytes(free)} free")
    require(free >= memory.disk, "memory_limit", rule, got)
    return f"finished particles on disk ({format_bytes(memory.disk)} in {place})"


def with_peak(cost: Cost, memory: Memory | None, executor: Executor) -> Cost:
    """Add the predicted and the measured peak memory to the cost of a run.

    Args:
        cost: the cost of the run.
        memory: the prediction.
        executor: the executor that ran the islands.

    Returns:
        The cost with the bytes; a peak over its limit is logged as a warning.
    """
    if memory is None:
        return cost
    if memory.limit is not None:
        release_memory()
    peak = peak_bytes(workers=isinstance(executor, Processes)) or None
    if memory.limit is not None and peak is not None and peak > memory.limit:
        message = "memory: the peak is %s, above the limit of %s; %s were expected"
        sizes = (peak, memory.limit, memory.expected)
        logger.warning(message, *map(format_bytes, sizes))
    return replace(cost, expected_bytes=memory.expected, peak_bytes=peak, memory_limit=memory.limit)
