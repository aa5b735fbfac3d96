"""P independent islands: started, run and reported one by one, so that a failure loses only one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from sbmc.checks import BadInput
from sbmc.log import logger
from sbmc.prior import AnchoredPrior
from sbmc.progress import open_progress
from sbmc.randomness import Stream, generator
from sbmc.samplers.chains import ChainRun
from sbmc.samplers.noise import IslandNoise
from sbmc.target import Target

# Islands are folded into one batch up to this many particles.
FOLD_PARTICLES = 160
# "The anchor plus a little noise", in units of the prior's standard deviation.
ANCHOR_NOISE = 0.01


class Sampler(Protocol):
    """Settings of an algorithm that can run a batch of islands."""

    @property
    def steps(self) -> int | None:
        """Steps per chain, if they are given."""

    @property
    def epochs(self) -> int | None:
        """The budget of evaluations per chain, if there is one."""

    def run(
        self, target: Target, rng: IslandNoise, start: Tensor, report: Any = None
    ) -> list[ChainRun]:
        """Run the islands of `rng` from `start`."""


@dataclass(frozen=True)
class IslandReport:
    """How one island fared.

    Attributes:
        index: its number, which with the seed decides its noise.
        outcome: `completed` or `failed`.
        log_evidence: its estimate of the log normalising constant; None for MCMC.
        epochs: evaluations per particle.
        acceptance: mean acceptance after warm-up.
        step_size: the frozen step size, in whitened units.
        steps: steps made.
        non_finite: proposals that were rejected because they were not finite.
        message: why it failed.
    """

    index: int
    outcome: str
    log_evidence: float | None = None
    epochs: float = 0.0
    acceptance: float | None = None
    step_size: float | None = None
    steps: int = 0
    non_finite: int = 0
    message: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Island:
    """An island's report, and its whitened positions `(particles * draws, dim)` if it completed."""

    report: IslandReport
    positions: Tensor | None


# (prior, generator, particles) -> whitened start positions of one island
Start = Callable[[AnchoredPrior, torch.Generator, int], Tensor]


def start_at_prior(prior: AnchoredPrior, rng: torch.Generator, particles: int) -> Tensor:
    """Draws from the anchored prior, as in the paper."""
    return prior.sample(particles, rng)


def start_at_anchor(prior: AnchoredPrior, rng: torch.Generator, particles: int) -> Tensor:
    """The anchor plus a little noise."""
    return prior.to_whitened(prior.anchor) + ANCHOR_NOISE * prior.sample(particles, rng)


def start_at_members(members: Tensor) -> Start:
    """Particle i starts at member i (and again from the first when there are more particles)."""

    def start(prior: AnchoredPrior, rng: torch.Generator, particles: int) -> Tensor:
        index = torch.arange(particles) % len(members)
        return prior.to_whitened(members[index.to(members.device)])

    return start


def run_islands(
    sampler: Sampler,
    target: Target,
    start: Start,
    *,
    islands: int,
    particles: int,
    seed: int,
    progress: bool | None = None,
) -> list[Island]:
    """Run `islands` islands of `particles` particles in this process, folded into batches that fit.

    Args:
        sampler: the algorithm's settings.
        target: log likelihood and gradient.
        start: where an island's particles begin.
        islands: how many.
        particles: particles per island.
        seed: island i draws from the stream (seed, i) and from nothing else.
        progress: None for automatic, False for silence, True for always.

    Returns:
        The islands in order. A fold that raises is run again island by island, and an island that
        raises alone is reported as failed.
    """
    per_fold = max(1, FOLD_PARTICLES // particles)
    folds = [range(i, min(i + per_fold, islands)) for i in range(0, islands, per_fold)]
    total = islands * (sampler.steps or sampler.epochs or 1)
    unit = "steps" if sampler.steps else "epochs"
    finished = 0
    results: list[Island] = []
    with open_progress(progress, "sampling", total=total, unit=unit) as bar:

        def report(runs: list[ChainRun]) -> None:
            each = [run.steps if sampler.steps else run.epochs for run in runs]
            through = len(results) + sum(made >= total // islands for made in each)
            newest = [run.acceptance[-1] for run in runs if run.acceptance]
            acceptance = sum(newest) / max(1, len(newest))
            bar.update(finished + sum(each), islands=f"{through}/{islands}", acceptance=acceptance)

        for fold in folds:
            results += _run_fold(sampler, target, start, fold, particles, seed, report)
            finished += len(fold) * (sampler.steps or sampler.epochs or 1)
    return results


def _run_fold(
    sampler: Sampler,
    target: Target,
    start: Start,
    fold: range,
    particles: int,
    seed: int,
    report: Callable[[list[ChainRun]], None],
) -> list[Island]:
    generators = [generator(seed, Stream.ISLANDS, i) for i in fold]
    prior = target.prior
    begin = torch.cat([start(prior, g, particles) for g in generators])
    try:
        noise = IslandNoise(generators, particles, prior.mean.device)
        runs = sampler.run(target, noise, begin, report)
    except BadInput:
        raise
    # A likelihood may answer non-finite outputs with an error, as torch.distributions does.
    except (RuntimeError, MemoryError, ValueError, ArithmeticError) as error:
        if len(fold) > 1:
            logger.warning("islands %s failed as one batch (%s); one by one now", list(fold), error)
            single = [range(i, i + 1) for i in fold]
            parts = [
                _run_fold(sampler, target, start, one, particles, seed, report) for one in single
            ]
            return [island for part in parts for island in part]
        message = f"{type(error).__name__}: {error}"
        return [Island(IslandReport(fold[0], "failed", message=message), None)]
    return [_as_island(index, run) for index, run in zip(fold, runs, strict=True)]


def _as_island(index: int, run: ChainRun) -> Island:
    report = IslandReport(
        index=index,
        outcome=run.outcome,
        epochs=float(run.epochs),
        acceptance=run.sampling_acceptance if run.acceptance else None,
        step_size=run.step_size,
        steps=run.steps,
        non_finite=run.non_finite,
        message=run.message,
    )
    return Island(report, torch.cat(run.draws) if run.outcome == "completed" else None)
