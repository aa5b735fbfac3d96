"""`sbmc.expect`: predicts the cost of a run of `fit` before anything is sampled."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor

from sbmc.fitting.mixture_plan import FurtherTraining
from sbmc.fitting.preparation import Prepared, prepare
from sbmc.fitting.request import FitRequest, takes_arguments_of
from sbmc.fitting.single_fits import single_fits
from sbmc.islands.executors import InProcess, Processes
from sbmc.islands.executors.contract import available_cores
from sbmc.islands.job import Job, plan_batches
from sbmc.islands.process_memory import format_bytes, resident_bytes
from sbmc.islands.sampling import bytes_on_disk
from sbmc.model.threads import torch_threads
from sbmc.randomness import Stream, generator
from sbmc.samplers.contract import EvaluationCount, Sampler
from sbmc.samplers.noise import IslandNoise
from sbmc.storage.html_tables import html_table
from sbmc.target.minibatch import MiniBatches
from sbmc.target.shards import as_shards, with_ranks
from sbmc.target.target import Target

# Seconds that measuring may take, roughly; and how many evaluations a median is taken of.
PATIENCE, REPEATS = 2.0, 3


@dataclass(frozen=True)
class Expectation:
    """The cost of a run, as far as it is known beforehand.

    Attributes:
        islands: how many.
        particles: chains or particles per island.
        batches: how many batches of islands there are.
        workers: how many batches run at a time.
        epochs: evaluations with gradient over all data, per chain.
        forward_epochs: evaluations without gradient, per chain.
        total_epochs: both kinds, over all chains, with the cost of the anchors.
        seconds: from a few evaluations that were measured; the anchors' training is left out.
        bytes: memory of one process that runs a batch, libraries and data included.
        total_bytes: memory of all processes.
        disk_bytes: the largest size of the checkpoint, and of finished particles that do not fit
            into memory; 0 without both.
        notes: the assumptions.
    """

    islands: int
    particles: int
    batches: int
    workers: int
    epochs: float
    forward_epochs: float
    total_epochs: float
    seconds: float
    bytes: int
    total_bytes: int
    disk_bytes: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The figures as a few lines of text."""
        each = self.epochs + self.forward_epochs
        lines = [
            f"islands    {self.islands} of {self.particles} particles, in {self.batches} batches, "
            f"{self.workers} at a time",
            f"epochs     {each:,.0f} a chain, {self.total_epochs:,.0f} in all",
            f"time       {format_seconds(self.seconds)}",
            f"memory     {format_bytes(self.bytes)} a worker, "
            f"{format_bytes(self.total_bytes)} in all",
            f"disk       {format_bytes(self.disk_bytes)} for checkpoint and particles",
        ]
        return "\n".join([*lines, *(f"note       {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        rows = [line.split(maxsplit=1) for line in str(self).splitlines()]
        return html_table(rows, caption="what the run would take")


@takes_arguments_of(FitRequest)
def expect(request: FitRequest) -> Expectation:
    """Predict the cost of `fit` with the same arguments; nothing is sampled or written.

    A few evaluations of the likelihood are made, at most about two seconds of them, to measure how
    long they take.

    Args:
        request: the arguments of `fit`, given in the same way; the model's weights do not matter.

    Returns:
        Epochs, time, memory and disk.

    Raises:
        BadInput: `fit` would refuse an argument.
        TypeError: `fit` does not have an argument.

    Examples:
        >>> import sbmc
        >>> from torch import nn
        >>> data = torch.randn(20, 2), torch.randint(2, (20,))
        >>> expect(nn.Linear(2, 2), data, sampler=sbmc.HMC(epochs=50), islands=3).epochs
        50.0
    """
    return with_ranks(lambda: _expect(request), as_shards(request.compute.shards))


def _expect(request: FitRequest) -> Expectation:
    fits = single_fits(request, seconds_per_epoch)
    expected = [_expect_one(each) for each in fits.requests]
    if fits.unseen is None and not fits.training.networks:
        return expected[0]
    return _added(expected, fits.training, mixed=fits.unseen is not None)


def seconds_per_epoch(request: FitRequest) -> float:
    """What an epoch of one particle takes, from a few evaluations that are measured."""
    expected = _expect_one(request)
    chains = expected.particles * expected.islands
    return expected.seconds / ((expected.epochs + expected.forward_epochs) * chains)


def _added(
    expected: Sequence[Expectation], training: FurtherTraining, *, mixed: bool
) -> Expectation:
    """The candidates of a mixture, which run one after another, and networks that are trained."""
    sampled = sum(one.total_epochs for one in expected)
    # A pass over the data takes about as long in training as in sampling.
    seconds_of_pass = sum(one.seconds for one in expected) / max(1.0, sampled)
    notes = [f"a mixture of {len(expected)} posteriors and the network"] if mixed else []
    if training.networks:
        notes.append(f"{training.networks} further networks are trained")
    return dataclasses.replace(
        expected[0],
        epochs=sum(each.epochs for each in expected),
        forward_epochs=sum(each.forward_epochs for each in expected),
        total_epochs=sampled + training.total_epochs,
        seconds=sum(each.seconds for each in expected) + training.total_epochs * seconds_of_pass,
        bytes=max(each.bytes for each in expected),
        total_bytes=max(each.total_bytes for each in expected),
        disk_bytes=sum(each.disk_bytes for each in expected),
        notes=(*expected[0].notes, "; ".join(notes)),
    )


def _expect_one(request: FitRequest) -> Expectation:
    """The cost of one posterior of one target."""
    prepared = prepare(request)
    job, islands = prepared.job, len(prepared.numbers)
    if job is None:
        held_before = resident_bytes()
        return Expectation(
            islands,
            particles=1,
            batches=0,
            workers=1,
            epochs=0.0,
            forward_epochs=0.0,
            total_epochs=prepared.anchor_epochs,
            seconds=0.0,
            bytes=held_before,
            total_bytes=held_before,
            disk_bytes=0,
        )
    count = job.sampler.evaluations()
    population = job.sampler.population(job.particles)
    executor = prepared.executor
    fold = executor.fold if executor.folds else 1
    batches = plan_batches(prepared.numbers, len(job.priors), population, fold)
    workers, notes = _workers(prepared, len(batches))
    largest = population * max(map(len, batches))
    memory = prepared.memory
    assert memory is not None  # it is None for s = 0 only
    if memory.note:
        notes = (*notes, f"memory: {memory.note}")
    with torch_threads(executor.threads_each):
        pass_seconds = _measure(job, largest, count)
    held_before, each = memory.held_before, memory.expected
    curvature = float(prepared.settings.get("prior_epochs", 0))
    chains = (count.gradient + count.forward) * islands * job.particles
    return Expectation(
        islands,
        job.particles,
        len(batches),
        workers,
        epochs=float(count.gradient),
        forward_epochs=float(count.forward),
        total_epochs=chains + prepared.anchor_epochs + curvature,
        seconds=(count.gradient + count.forward)
        * pass_seconds
        * islands
        * population
        / largest
        / workers,
        bytes=each,
        total_bytes=each if isinstance(executor, InProcess) else held_before + workers * each,
        disk_bytes=memory.disk
        + (0 if prepared.location is None else bytes_on_disk(job, population, islands)),
        notes=(*count.notes, *notes),
    )


@takes_arguments_of(FitRequest)
def check(request: FitRequest) -> Prepared:
    """Check the arguments as `fit` does, without measuring anything.

    Args:
        request: the arguments of `fit`, given in the same way.

    Returns:
        All that is needed to sample.

    Raises:
        BadInput: `fit` would refuse an argument.
        TypeError: `fit` does not have an argument.
    """
    # Nothing is to be started for a check, which one process makes as well.
    request = dataclasses.replace(
        request, compute=dataclasses.replace(request.compute, shards=None)
    )
    return prepare(single_fits(request, seconds_per_epoch).requests[0])


def _workers(prepared: Prepared, batches: int) -> tuple[int, tuple[str, ...]]:
    """How many batches run at a time, and a note if that is assumed."""
    executor, cores = prepared.executor, available_cores()
    if isinstance(executor, Processes):
        return min(executor.workers or cores, batches), ()
    if executor.workers is None:
        note = f"how many workers there are is not known: {cores} assumed, as this machine's cores"
        return min(cores, batches), (note,)
    return min(executor.workers, batches), ()


def _measure(job: Job, positions: int, count: EvaluationCount) -> float:
    """Seconds of one pass over all data for so many positions."""
    target = job.target(0)
    rng = generator(job.seed, Stream.PILOT)
    start = target.prior.sample(positions, rng)
    sampler, calls = job.sampler, 1
    evaluate: Callable[[Tensor], object] = target if count.gradient else target.log_likelihood
    if (rows := sampler.batch_rows(job.engine.rows)) is not None:
        batches = MiniBatches(target)
        size = min(rows, len(batches))
        calls = math.ceil(len(batches) / rows)
        at_hand = len(job.engine.examples)
        index = torch.randint(at_hand, (positions, size), generator=rng).to(start.device)

        def evaluate_batch(some: Tensor) -> object:
            return batches(some, index[: len(some)])

        evaluate = evaluate_batch

    # A short run of a stream would read all data.
    short = sampler.short_run() if job.engine.stream is None else None
    seconds = calls * _seconds(evaluate, start)
    if seconds < PATIENCE and short is not None:
        seconds = _seconds_of_an_epoch(short, target, start, rng)
    return seconds


def _seconds_of_an_epoch(
    short: Sampler, target: Target, start: Tensor, rng: torch.Generator
) -> float:
    noise = IslandNoise([rng], len(start), start.device)
    began = time.perf_counter()
    short.run(target, noise, start)
    return (time.perf_counter() - began) / (short.epochs or 1)


def _seconds(evaluate: Callable[[Tensor], object], positions: Tensor) -> float:
    """The median of a few times; if it takes long, of some positions, scaled to their number."""

    def timed(some: Tensor) -> float:
        began = time.perf_counter()
        evaluate(some)
        if some.device.type == "cuda":
            torch.cuda.synchronize(some.device)
        return time.perf_counter() - began

    timed(positions[:1])  # the first call is slower, since it loads code and takes memory
    alone = timed(positions[:1])
    if alone * len(positions) * REPEATS > PATIENCE:
        few = max(1, min(len(positions), int(PATIENCE / REPEATS / alone)))
        return timed(positions[:few]) * len(positions) / few
    return median(timed(positions) for _ in range(REPEATS))


def format_seconds(seconds: float) -> str:
    """Format a time for people to read.

    Examples:
        >>> format_seconds(0.26), format_seconds(125), format_seconds(7300)
        ('0.3 s', '2.1 min', '2.0 h')
    """
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 100 else f"{seconds:.1f} s"
