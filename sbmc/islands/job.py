"""The job of a run, divided into batches of islands that can run anywhere, in any order.

Islands are independent of each other. A batch is one island, or several that are folded into one.
Its result depends only on the job and on the numbers of its islands. It does not depend on the
process that runs it, nor on what ran before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sbmc.islands.island import Island, Start, island_of
from sbmc.model.threads import threads_for, torch_threads
from sbmc.prior.gaussian import AnchoredPrior
from sbmc.randomness import Stream, generator
from sbmc.samplers.contract import IslandRun, Sampler
from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.snapshot import NO_CHECKPOINTS, Checkpointer
from sbmc.target.contract import Engine
from sbmc.target.memory_needs import multiplications
from sbmc.target.minibatch import LEAST_WORK
from sbmc.target.target import Target

# Islands are folded into one batch up to this many particles.
FOLD_PARTICLES = 160

# The numbers of the islands that run together.
Batch = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Job:
    """All that islands need apart from their numbers. It is sent to every worker once.

    Attributes:
        sampler: the algorithm's settings.
        engine: log likelihood and gradient, in the model's own coordinates.
        priors: one for each anchor; island i has the prior with the number i modulo their count.
        start: where an island's particles begin.
        particles: particles per island.
        seed: island i draws from the stream (seed, i) and from nothing else.
        power: the exponent of the likelihood.
        threads: how many torch may use for a batch; None does not change their number.
    """

    sampler: Sampler
    engine: Engine
    priors: Sequence[AnchoredPrior]
    start: Start
    particles: int
    seed: int
    power: float = 1.0
    threads: int | None = None

    def target(self, island: int) -> Target:
        """The target of an island, with a count of evaluations that nothing else adds to."""
        return Target(self.engine, self.priors[island % len(self.priors)], self.power)

    def noise_of(self, island: int) -> torch.Generator:
        """The random stream of an island, at its beginning."""
        return generator(self.seed, Stream.ISLANDS, island)

    def begin(self, island: int, rng: torch.Generator) -> Tensor:
        """Where an island's particles begin, whitened, `(population, dim)`."""
        prior = self.priors[island % len(self.priors)]
        return self.start(prior, rng, self.sampler.population(self.particles))

    def run(
        self,
        batch: Batch,
        report: Callable[[list[IslandRun]], None] | None = None,
        checkpointer: Checkpointer = NO_CHECKPOINTS,
    ) -> list[Island]:
        """Run the islands of a batch together.

        Args:
            batch: their numbers; they must have the same prior.
            report: called now and then with all runs.
            checkpointer: is offered the snapshots from which the batch can continue.

        Returns:
            The islands, in the order of the batch.

        Raises:
            Exception: whatever the likelihood raises. Only this batch fails then.
        """
        began = time.perf_counter()
        target = self.target(batch[0])
        prior = target.prior
        population = self.sampler.population(self.particles)
        with torch_threads(self.threads), self._threads_for(len(batch) * population):
            generators = [self.noise_of(island) for island in batch]
            begin = torch.cat([self.begin(i, g) for i, g in zip(batch, generators, strict=True)])
            noise = IslandNoise(generators, self.particles, prior.mean.device)
            runs = self.sampler.run(target, noise, begin, report, checkpointer)
        seconds = time.perf_counter() - began + getattr(checkpointer, "seconds_before", 0.0)
        attempts = getattr(checkpointer, "attempts", 1)
        return [
            island_of(index, run, attempts=attempts, seconds=seconds / len(batch))
            for index, run in zip(batch, runs, strict=True)
        ]

    def _threads_for(self, particles: int) -> AbstractContextManager[None]:
        """As many threads as pay off when so many particles are evaluated."""
        inputs, positions = self.engine.examples.inputs, particles * self.engine.dim
        examples = len(self.engine.examples)
        rows = self.sampler.batch_rows(examples)
        work = multiplications(inputs, min(rows or examples, examples), positions)
        # The mini-batches of particles differ: only a kernel takes them in chunks of particles.
        apart = self.engine.shareable and (rows is None or self.engine.batch_kernel() is not None)
        # A kernel's mini-batches are one call a chunk, with less to agree on than other pieces.
        small = 2 * LEAST_WORK if apart and rows is not None else None
        return threads_for(work, positions, apart=apart, small=small)

    def progress_unit(self) -> tuple[int | None, str]:
        """How much an island has to do, and the unit in which progress is counted.

        Returns:
            The number of steps or epochs, and their name; None and `"islands"` for SMC, whose
            number of temperatures is not known beforehand.
        """
        if self.sampler.steps:
            return self.sampler.steps, "steps"
        if self.sampler.epochs:
            return self.sampler.epochs, "epochs"
        return None, "islands"


def plan_batches(
    islands: Sequence[int], anchors: int, population: int, fold: int | None = None
) -> list[Batch]:
    """Fold islands into batches; only islands of one anchor go together.

    Args:
        islands: their numbers.
        anchors: how many anchors there are; the islands take them in turn.
        population: positions of one island.
        fold: the largest number of positions in one batch, by rule if not given. An island that has
            more is a batch of its own; with 1, every island is.

    Returns:
        The batches.

    Examples:
        >>> plan_batches(range(5), anchors=2, population=10, fold=20)
        [(0, 2), (4,), (1, 3)]
    """
    size = max(1, (FOLD_PARTICLES if fold is None else fold) // population)
    batches = []
    for anchor in range(anchors):
        same_anchor = [index for index in islands if index % anchors == anchor]
        batches += [tuple(same_anchor[i : i + size]) for i in range(0, len(same_anchor), size)]
    return batches


def progress_of(runs: Sequence[Any], unit: str, each: int | None) -> dict[str, Any]:
    """The progress of a batch, as plain values that can be sent between processes.

    Args:
        runs: of the batch's islands.
        unit: what is counted: `steps`, `epochs` or `islands`.
        each: how much of it an island has to do, if that is known.

    Returns:
        `done` in that unit, `through` (the number of islands that are done), `epochs` and, where
        there are some, `acceptance` (the mean of the islands), `temperature` (the lowest) and
        `settling` (the largest figure, or None before it is known). An island that ended early
        counts as if it had done all, and one that was extended as if it had kept its budget.
    """
    spent = [run.epochs + run.forward_epochs for run in runs]
    if each is None:
        through = sum(run.outcome != "running" for run in runs)
        done = through
    else:
        progress = [run.steps for run in runs] if unit == "steps" else spent
        progress = [
            each if run.outcome == "completed" else min(made, each)
            for run, made in zip(runs, progress, strict=True)
        ]
        through = sum(made == each for made in progress)
        done = sum(progress)
    fields: dict[str, Any] = {"done": done, "through": through, "epochs": max(spent)}
    acceptance = [run.acceptance[-1] for run in runs if run.acceptance]
    if acceptance:  # samplers that reject nothing have none
        fields["acceptance"] = sum(acceptance) / len(acceptance)
    temperatures = [getattr(run, "temperature", None) for run in runs]
    known = [value for value in temperatures if value is not None]
    if known:
        fields["temperature"] = min(known)
    if hasattr(runs[0], "settling"):
        # None as long as there were too few moves to tell.
        figures = [run.settling for run in runs if run.settling is not None]
        fields["settling"] = max(figures, default=None)
    return fields
