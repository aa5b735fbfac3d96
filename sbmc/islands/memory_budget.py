"""From a limit on memory to chunks, folds and threads; and the peak of a run before it starts.

A process that runs islands holds, at its peak,

    what it holds before · what is prepared of the data · threads × what a chunk takes on its way
    through the model · the state of the chains that are folded into one batch · what islands that
    have ended have left

and after the last island two further copies of what they have left, for the posterior and for its
predictions. All of it follows from shapes, but for the first, which is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from sbmc.checks import Phrase, require
from sbmc.islands.checkpoints import CheckpointAt, kept_manifest
from sbmc.islands.cost import Cost
from sbmc.islands.executors import Executor, InProcess, Processes
from sbmc.islands.memory import peak_bytes, release_memory, resident_bytes, size_in_words
from sbmc.islands.work import plan_batches
from sbmc.log import logger
from sbmc.model.chunks import ACTIVATION_BYTES, Chunks
from sbmc.model.threads import torch_threads
from sbmc.samplers.contract import Sampler
from sbmc.target.engine import LikelihoodEngine
from sbmc.target.memory_needs import bytes_of
from sbmc.target.minibatch import BATCH_BYTES

# What libraries take when they are first used, and stacks and pools of threads.
ALLOWANCE = 32 * 2**20
# What a batch of predictions takes.
PREDICTION = 3 * ACTIVATION_BYTES


@dataclass(frozen=True)
class Memory:
    """What a run takes, and what was chosen for that.

    Attributes:
        expected: bytes of the largest process at its peak.
        limit: what was allowed, if anything.
        here: what this process held before.
        together: islands in one batch, at most.
        threads: of one batch.
        note: the choice in words; empty without a limit.
    """

    expected: int
    limit: int | None
    here: int
    together: int
    threads: int
    note: str = ""


@dataclass(frozen=True)
class Plan:
    """A run whose memory is asked for.

    Attributes:
        sampler: the algorithm's settings.
        particles: per island.
        numbers: of the islands.
        anchors: how many priors there are, which islands take in turn.
        executor: runs the islands.
        location: where they are written down, if anywhere.
        size: examples per chunk, if that was given.
        limit: bytes of a process, if that was given.
    """

    sampler: Sampler
    particles: int
    numbers: Sequence[int]
    anchors: int
    executor: Executor
    location: CheckpointAt | None
    size: int | None
    limit: int | None

    @property
    def population(self) -> int:
        """Positions of an island."""
        return self.sampler.population(self.particles)

    def states(self, engine: LikelihoodEngine, islands: int) -> int:
        """What chains of so many islands hold besides activations."""
        sampler, positions = self.sampler, islands * self.population
        vectors = sampler.vectors + sampler.draws
        if self.location is not None:  # a snapshot is encoded before it is written
            vectors += 2 * sampler.snapshot_vectors
        further = sampler.further_bytes(positions, engine.dim, bytes_of(engine.examples))
        return positions * vectors * engine.width + further

    def results(self, engine: LikelihoodEngine, islands: int | None = None) -> int:
        """What islands leave."""
        count = len(self.numbers) if islands is None else islands
        return count * self.population * self.sampler.draws * engine.width

    def peak(self, engine: LikelihoodEngine, evaluation: int, islands: int, here: int) -> int:
        """Bytes of the largest process.

        Args:
            engine: the likelihood.
            evaluation: what one takes, beyond data and particles.
            islands: in one batch.
            here: what this process holds before.
        """
        busy = evaluation + self.states(engine, islands) + ALLOWANCE
        if self.sampler.batch_size is not None and not engine.limited:
            busy += 2 * BATCH_BYTES  # what goes through with its gradient, of every chain its own
        after = 2 * self.results(engine) + PREDICTION
        if isinstance(self.executor, InProcess):
            return here + self.results(engine) + max(busy, after)
        # The work is sent: packed here, and unpacked there.
        sent = bytes_of(engine.examples) + engine.dim * 8
        return here + sent + max(busy + self.results(engine, 1), self.results(engine) + after)


def settle_memory(engine: LikelihoodEngine, plan: Plan) -> tuple[Executor, Memory]:
    """Choose chunks, how many islands are folded into one batch, and threads; say what it takes.

    Without a limit, everything is as the rules for speed have it. With one, first fewer islands
    are folded, then chunks are made smaller and less is kept prepared, and at last there are fewer
    threads. What a checkpoint has begun with stays.

    Args:
        engine: is settled here.
        plan: the run.

    Returns:
        The executor with the fold and the threads that were chosen, and the memory.

    Raises:
        BadInput: the run cannot be as small as the limit.
    """
    here = resident_bytes()
    executor, limit = plan.executor, plan.limit
    kept = None if plan.location is None else kept_manifest(plan.location)
    if kept is not None:
        with torch_threads(kept.threads):
            together = max([1, *map(len, kept.batches)])
            memory = _as_kept(engine, plan, kept, together, here)
            if limit is not None:  # islands that are added are folded no further
                executor = _changed(executor, together * plan.population, executor.threads_each)
            return executor, memory
    fold = executor.fold if executor.folds else 1
    batches = plan_batches(plan.numbers, plan.anchors, plan.population, fold)
    together, threads = max(map(len, batches)), executor.threads_each
    if limit is None:
        with torch_threads(threads):
            engine.settle(size=plan.size)
            taken = plan.peak(engine, _evaluation(engine, plan, together), together, here)
        return executor, Memory(taken, None, here, together, threads)
    with torch_threads(threads):
        usual = engine.needs.usual(plan.size)
        while together > 1 and plan.peak(engine, usual, together, here) > limit:
            together //= 2
        fits = plan.peak(engine, usual, together, here) <= limit
    while threads > 1 and not fits and _least(engine, plan, threads, here) > limit:
        threads -= 1
    least = _least(engine, plan, threads, here)
    enough = f"at least {size_in_words(least)}, which this run takes with the smallest chunks"
    require(fits or least <= limit, "memory_limit", enough, Phrase(size_in_words(limit)))
    with torch_threads(threads):
        engine.settle(
            None if fits else limit - plan.peak(engine, 0, together, here), size=plan.size
        )
        taken = plan.peak(engine, _evaluation(engine, plan, together), together, here)
    changed = _changed(executor, together * plan.population, threads)
    if changed.threads_each != threads:  # its threads are not for us to choose
        require(taken <= limit, "memory_limit", enough, Phrase(size_in_words(limit)))
    memory = Memory(taken, limit, here, together, threads)
    memory = replace(memory, note=_words(engine, memory))
    logger.debug("memory: %s", memory.note)
    return changed, memory


def _evaluation(engine: LikelihoodEngine, plan: Plan, islands: int) -> int:
    return engine.evaluation_bytes(islands * plan.population)


def _least(engine: LikelihoodEngine, plan: Plan, threads: int, here: int) -> int:
    with torch_threads(threads):
        return plan.peak(engine, engine.needs.least(plan.size), 1, here)


def _as_kept(engine: LikelihoodEngine, plan: Plan, kept: Any, together: int, here: int) -> Memory:
    """Go on as a checkpoint has begun, whatever the rules say now."""
    chunks, size = None, plan.size
    told = kept.identity.get("chunks")
    if size is None and isinstance(told, dict) and set(told) == {f.name for f in fields(Chunks)}:
        chunks = Chunks(**told)
        if kept.identity.get("kernel", "") is None:
            engine.without_kernel()
    least = engine.needs.least(size)
    room = None
    if plan.limit is not None:
        room = max(least, plan.limit - plan.peak(engine, 0, together, here))
    engine.settle(room, chunks, size)
    taken = plan.peak(engine, _evaluation(engine, plan, together), together, here)
    memory = Memory(taken, plan.limit, here, together, kept.threads)
    if plan.limit is not None:
        rule = f"at least {size_in_words(taken)}, as the checkpoint was begun"
        require(taken <= plan.limit, "memory_limit", rule, Phrase(size_in_words(plan.limit)))
        memory = replace(memory, note=_words(engine, memory))
        logger.debug("memory: %s", memory.note)
    return memory


def _changed(executor: Executor, fold: int, threads: int) -> Executor:
    """The same executor with another fold and other threads, where those are its settings."""
    names = {field.name for field in fields(executor)}  # type: ignore[arg-type]
    chosen: dict[str, Any] = {}
    if executor.folds:
        chosen["fold"] = fold
    if "threads" in names and threads != executor.threads_each:
        chosen["threads"] = threads
    return replace(executor, **chosen) if chosen else executor  # type: ignore[type-var]


def _words(engine: LikelihoodEngine, memory: Memory) -> str:
    assert memory.limit is not None
    chunks = engine.chunks
    return (
        f"{size_in_words(memory.expected)} expected of {size_in_words(memory.limit)} "
        f"({size_in_words(memory.here)} before): {memory.together} islands in a batch, "
        f"{memory.threads} threads, chunks of {chunks.examples} examples and at most "
        f"{chunks.particles} particles"
    )


def with_peak(cost: Cost, memory: Memory | None, executor: Executor) -> Cost:
    """Note what was expected of a run that has ended, and what it took.

    Args:
        cost: of the run.
        memory: what was expected.
        executor: that ran the islands.

    Returns:
        The cost with the bytes; a peak over its limit is logged as a warning.
    """
    if memory is None:
        return cost
    if memory.limit is not None:
        release_memory()
    peak = peak_bytes(workers=isinstance(executor, Processes)) or None
    if memory.limit is not None and peak is not None and peak > memory.limit:
        words = "memory: the peak is %s, above the limit of %s; %s were expected"
        sizes = (peak, memory.limit, memory.expected)
        logger.warning(words, *map(size_in_words, sizes))
    return replace(cost, expected_bytes=memory.expected, peak_bytes=peak, memory_limit=memory.limit)
