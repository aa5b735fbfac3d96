"""The interface of an executor, and what every worker does with a batch.

A new executor is one file in this folder: a frozen dataclass of settings, derived from `Executor`,
and its `Session`. No other file has to be changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from sbmc.islands.checkpoints import CheckpointFiles, Stopped, is_final
from sbmc.islands.island import Island
from sbmc.islands.job import Batch, progress_of
from sbmc.samplers.snapshot import NO_CHECKPOINTS

if TYPE_CHECKING:
    from sbmc.islands.job import Job

# Seconds between two progress messages of a batch: a display needs no more, and messages from other
# machines have a cost.
PROGRESS_INTERVAL = 0.5
# Seconds that workers have to save their snapshots when they are asked to stop.
GRACE = 10.0


class WorkerLost(RuntimeError):
    """A worker died, or its result was lost on the way."""


# (batch, what `progress_of` returns) -> None; called in the process of the scheduler
ProgressCallback = Callable[[Batch, dict[str, Any]], None]


@dataclass(frozen=True)
class Done:
    """How a batch ended: with islands, or with an error.

    Attributes:
        batch: the numbers of its islands.
        islands: the islands, with their results.
        error: the error that the computation raised, or how the worker was lost; `Stopped` if it
            was asked to stop.
        lost: whether the worker died (killed, out of memory, its machine gone), so that the
            computation itself may be all right.
    """

    batch: Batch
    islands: list[Island] | None = None
    error: BaseException | None = None
    lost: bool = False


class Session:
    """Running workers, as a context manager that ends all of them.

    Attributes:
        window: how many batches may be submitted at a time; the scheduler holds back the others.
    """

    window: int = 1

    def submit(self, batch: Batch) -> None:
        """Run a batch as soon as a worker is free."""
        raise NotImplementedError

    def wait(self, timeout: float) -> list[Done]:
        """Wait until a batch has ended, and report the progress of the others.

        Args:
            timeout: seconds after which to return in any case. An executor that runs batches
                in this process returns when one has ended.

        Returns:
            The batches that have ended; there may be none.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """Ask all workers to save their snapshots and to end.

        This method only sets a flag, so that a signal handler can call it. After that, `wait`
        returns every batch within `GRACE` seconds, with `Stopped` or as lost.
        """
        raise NotImplementedError

    def close(self) -> None:
        """End all workers at once, and free all resources."""

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Executor:
    """Settings of an executor: a frozen dataclass that checks its values when it is made.

    Attributes:
        name: the name by which a user can choose it.
        summary: what it is, in one line.
        folds: whether islands are folded into batches; otherwise each is a batch of its own.
        fold: the largest number of positions in a batch, by rule if None.
        workers: how many batches run at a time; None if the pool or the cluster decides.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    folds: ClassVar[bool] = False
    fold: int | None = 1
    workers: int | None = 1

    @property
    def threads_each(self) -> int:
        """Threads that torch may use for a batch."""
        return torch.get_num_threads()

    def open(
        self, job: Job, checkpoint_files: CheckpointFiles | None, report_progress: ProgressCallback
    ) -> Session:
        """Start a session.

        Args:
            job: what the islands need to run; it is sent to every worker once.
            checkpoint_files: where batches save their snapshots, if there is a checkpoint.
            report_progress: a callback, to be called in this process.

        Returns:
            The session, which the caller has to close.

        Raises:
            BadInput: the job cannot be sent to the workers, or they cannot be reached.
        """
        raise NotImplementedError


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_in_worker(
    job: Job,
    batch: Batch,
    checkpoint_files: CheckpointFiles | None,
    report_progress: ProgressCallback,
    stop: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
) -> list[Island]:
    """Run a batch, from its snapshot if there is one, and save its results.

    Args:
        job: what the islands need to run.
        batch: the numbers of the islands.
        checkpoint_files: where snapshots and results are saved; None saves nothing.
        report_progress: called at most twice a second, and at the end.
        stop: returns whether to stop; it is called often.
        clock: gives seconds.

    Returns:
        The islands.

    Raises:
        Stopped: `stop` returned True.
        CheckpointError: a snapshot or a result could not be written.
        Exception: whatever the likelihood raises.
    """
    each, unit = job.progress_unit()
    newest: list[Any] = []
    last = -PROGRESS_INTERVAL

    def report(runs: list[Any]) -> None:
        nonlocal newest, last
        # A checkpointer that saves stops the run itself, at its next snapshot.
        if checkpointer is NO_CHECKPOINTS and stop():
            raise Stopped("stopped")
        newest = runs
        if clock() - last >= PROGRESS_INTERVAL:
            last = clock()
            newest = []
            report_progress(batch, progress_of(runs, unit, each))

    checkpointer = (
        NO_CHECKPOINTS if checkpoint_files is None else checkpoint_files.checkpointer(batch, stop)
    )
    if checkpoint_files is not None:
        checkpointer.begin()  # type: ignore[attr-defined]
    islands = job.run(batch, report, checkpointer)
    if newest:
        report_progress(batch, progress_of(newest, unit, each))
    if checkpoint_files is not None:
        checkpoint_files.save_islands(islands)
        # A single island that failed may continue from its snapshot when it is tried again.
        if len(batch) > 1 or is_final(islands[0].report):
            checkpointer.finish()  # type: ignore[attr-defined]
    return islands
