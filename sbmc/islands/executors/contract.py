"""What the driver asks of an executor, and what every worker does with a batch.

A new executor is one file in this folder: a frozen dataclass of settings, made from `Executor`, and
its `Session`. Nothing else has to be told of it.
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
from sbmc.islands.work import Batch, progress_of
from sbmc.samplers.snapshot import NO_CHECKPOINTS

if TYPE_CHECKING:
    from sbmc.islands.work import Work

# A display needs no more news than this, and news from afar have a price.
TELL_INTERVAL = 0.5
# What workers get, once they are asked to stop, to write down where they are.
GRACE = 10.0


class WorkerLost(RuntimeError):
    """A worker died, or what it had to tell was lost on its way."""


# (batch, what `progress_of` gives): called in the process of the driver
Tell = Callable[[Batch, dict[str, Any]], None]


@dataclass(frozen=True)
class Done:
    """How a batch ended: with islands or with an error.

    Attributes:
        batch: the numbers of its islands.
        islands: what came of them.
        error: what the work raised, or how the worker was lost; `Stopped` if it was asked to.
        lost: the worker died (killed, out of memory, its machine gone); the work itself is not to
            blame, as far as anyone knows.
    """

    batch: Batch
    islands: list[Island] | None = None
    error: BaseException | None = None
    lost: bool = False


class Session:
    """Workers that are set to work: a context manager that leaves none of them behind.

    Attributes:
        window: how many batches may be under way at a time; the driver holds back the others.
    """

    window: int = 1

    def submit(self, batch: Batch) -> None:
        """Have a batch run as soon as a worker is free."""
        raise NotImplementedError

    def wait(self, timeout: float) -> list[Done]:
        """Wait until a batch has ended, and hand on the news of the others.

        Args:
            timeout: seconds after which to come back in any case. An executor that runs batches
                in this process comes back when one has ended.

        Returns:
            What has ended; maybe nothing.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """Ask all workers to write down where they are and to end.

        It only takes note, so that a signal handler can call it; `wait` does what follows, and
        gives every batch back within `GRACE` seconds, with `Stopped` or as lost.
        """
        raise NotImplementedError

    def close(self) -> None:
        """End all workers, whatever they do, and give everything back."""

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
    """Settings of a way to run batches: a frozen dataclass, which refuses nonsense when it is made.

    Attributes:
        name: by which a user can ask for it.
        summary: what it is, in one line of plain words.
        folds: whether islands are folded into batches; otherwise each is a batch of its own.
        fold: most positions of a batch, by rule if None.
        workers: how many batches run at a time; None leaves that to where they run.
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

    def open(self, work: Work, checkpoint_files: CheckpointFiles | None, tell: Tell) -> Session:
        """Set workers to work.

        Args:
            work: what they are to do; sent to each of them once.
            checkpoint_files: where batches write down their snapshots, if there is a checkpoint.
            tell: to be called in this process with the news.

        Returns:
            The session; it is to be closed.

        Raises:
            BadInput: the work cannot be sent to them, or they cannot be reached.
        """
        raise NotImplementedError


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_in_worker(
    work: Work,
    batch: Batch,
    checkpoint_files: CheckpointFiles | None,
    tell: Tell,
    stop: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
) -> list[Island]:
    """Run a batch from where it was left, if it was, and keep what comes of it.

    Args:
        work: what to do.
        batch: numbers of the islands.
        checkpoint_files: where snapshots and results are kept; None keeps nothing.
        tell: hears of progress, at most twice a second, and of the end.
        stop: whether to stop; asked often.
        clock: gives seconds.

    Returns:
        The islands.

    Raises:
        Stopped: `stop` said so.
        CheckpointError: a snapshot or a result could not be written.
        Exception: whatever the likelihood raises.
    """
    each, unit = work.measure()
    newest: list[Any] = []
    last = -TELL_INTERVAL

    def report(runs: list[Any]) -> None:
        nonlocal newest, last
        # A checkpointer that writes stops by itself, at its next snapshot.
        if checkpointer is NO_CHECKPOINTS and stop():
            raise Stopped("stopped")
        newest = runs
        if clock() - last >= TELL_INTERVAL:
            last = clock()
            newest = []
            tell(batch, progress_of(runs, unit, each))

    checkpointer = (
        NO_CHECKPOINTS if checkpoint_files is None else checkpoint_files.checkpointer(batch, stop)
    )
    if checkpoint_files is not None:
        checkpointer.begin()  # type: ignore[attr-defined]
    islands = work.run(batch, report, checkpointer)
    if newest:
        tell(batch, progress_of(newest, unit, each))
    if checkpoint_files is not None:
        checkpoint_files.keep(islands)
        # An island alone that has failed may go on from its snapshot when it is tried again.
        if len(batch) > 1 or is_final(islands[0].report):
            checkpointer.finish()  # type: ignore[attr-defined]
    return islands
