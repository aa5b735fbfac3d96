"""Samples the particles of an island one after another, where all of them do not fit into memory.

The chains of a sampler whose particles share nothing, neither a step size that adapts nor a
resampling, are independent. An island of N of them is then N islands of one particle, which the
scheduler folds into batches as small as the memory limit asks for, runs on any executor and saves
in checkpoints as it does all islands. At the end they are put together again.

Particle k of island i draws from the stream of the number i·N + k. Which particles run together
decides no more than the last bits; but the numbers are other draws of the same distribution than
those of a run whose islands fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from sbmc.islands.checkpoints import saved_manifest
from sbmc.islands.island import Island, IslandReport
from sbmc.islands.memory_budget import RunSize, least_memory
from sbmc.islands.particles_on_disk import ParticlesOnDisk
from sbmc.target.engine import LikelihoodEngine

SETTING = "particles_apart"


def needs_splitting(engine: LikelihoodEngine, run_size: RunSize) -> bool:
    """Whether an island has to be run in parts to stay within the memory limit.

    Args:
        engine: the likelihood.
        run_size: the run.

    Returns:
        False without a limit, for a sampler whose particles depend on each other, and for several
        anchors. A run that continues from a checkpoint is split as it was when it began.
    """
    if run_size.limit is None or run_size.particles == 1 or run_size.anchors > 1:
        return False
    if not run_size.sampler.independent_particles:
        return False
    manifest = None if run_size.location is None else saved_manifest(run_size.location)
    if manifest is not None:
        return bool(manifest.identity.get(SETTING, False))
    return least_memory(engine, run_size) > run_size.limit


def split_islands(run_size: RunSize) -> RunSize:
    """The same run with an island for each particle.

    Examples:
        >>> import sbmc
        >>> from sbmc.islands.executors import InProcess
        >>> run = RunSize(sbmc.SGLD(), 10, range(1, 3), 1, InProcess(), None, None, None)
        >>> split_islands(run).numbers, split_islands(run).particles
        (range(10, 30), 1)
    """
    first, last = run_size.numbers[0], run_size.numbers[-1]
    numbers = range(first * run_size.particles, (last + 1) * run_size.particles)
    return replace(run_size, particles=1, numbers=numbers)


def join_particles(
    parts: Sequence[Island], particles: int, on_disk: ParticlesOnDisk | None = None
) -> list[Island]:
    """Put the islands together again whose particles were sampled apart.

    Args:
        parts: islands of one particle each, in order.
        particles: how many make one island.
        on_disk: the file that has their positions side by side; None if they are in memory.

    Returns:
        The islands. One of them fails if a particle of it has failed.
    """
    starts = range(0, len(parts), particles)
    return [_joined(parts[start : start + particles], on_disk) for start in starts]


def _joined(parts: Sequence[Island], on_disk: ParticlesOnDisk | None) -> Island:
    reports = [part.report for part in parts]
    report = _joined_report(reports)
    if report.outcome != "completed":
        return Island(report, None)
    if on_disk is not None:
        return Island(report, on_disk.island(report.index))
    # A draw of all particles comes before the next draw.
    draws = torch.stack([part.positions for part in parts if part.positions is not None], 1)
    return Island(report, draws.flatten(0, 1))


def _joined_report(reports: Sequence[IslandReport]) -> IslandReport:
    failed = [report for report in reports if report.outcome != "completed"]
    first = failed[0] if failed else reports[0]
    restarted = [each.restarted for each in reports if each.restarted is not None]
    return replace(
        first,
        index=reports[0].index // len(reports),
        epochs=sum(each.epochs for each in reports) / len(reports),
        forward_epochs=sum(each.forward_epochs for each in reports) / len(reports),
        non_finite=sum(each.non_finite for each in reports),
        restarted=sum(restarted) if restarted else None,
        displacement=[value for each in reports for value in each.displacement],
        returned=sum(each.returned or 0 for each in reports),
        # Each has a stream of its own: two of them are equal only if neither has moved.
        distinct=sum(each.distinct or 0 for each in reports),
        attempts=max(each.attempts for each in reports),
        seconds=sum(each.seconds for each in reports),
    )
