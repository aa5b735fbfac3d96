"""Runs the islands in this process, folded into batches, one batch after the other."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from sbmc.checks import require_count
from sbmc.islands.checkpoints import CheckpointFiles, Stopped
from sbmc.islands.executors.contract import Done, Executor, ProgressCallback, Session, run_in_worker
from sbmc.islands.job import Batch
from sbmc.target.shards import RankLost

if TYPE_CHECKING:
    from sbmc.islands.job import Job


@dataclass(frozen=True, kw_only=True)
class InProcess(Executor):
    """Run the islands in this process.

    Args:
        fold: the largest number of positions in one batch, by rule if not given; with 1 every
            island is a batch of its own, as it is in all other executors.
        threads: how many threads torch may use; their number is not changed if not given.

    Raises:
        BadInput: a value is not positive.

    Examples:
        >>> InProcess(fold=0)
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `fold` must be a positive integer or None, but got 0.
    """

    name: ClassVar[str] = "in-process"
    summary: ClassVar[str] = "this process, with islands folded into batches"
    folds: ClassVar[bool] = True
    fold: int | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("fold", self.fold), ("threads", self.threads)):
            require_count(name, value, optional=True)

    @property
    def threads_each(self) -> int:
        """Threads that torch may use for a batch."""
        return torch.get_num_threads() if self.threads is None else self.threads

    def open(
        self, job: Job, checkpoint_files: CheckpointFiles | None, report_progress: ProgressCallback
    ) -> Session:
        """Start a session; there are no workers to start."""
        return _Session(job, checkpoint_files, report_progress)


class _Session(Session):
    def __init__(
        self, job: Job, checkpoint_files: CheckpointFiles | None, report_progress: ProgressCallback
    ) -> None:
        self._job, self._checkpoint_files, self._report_progress = (
            job,
            checkpoint_files,
            report_progress,
        )
        self._waiting: deque[Batch] = deque()
        self._stopping = False

    def submit(self, batch: Batch) -> None:
        self._waiting.append(batch)

    def wait(self, timeout: float) -> list[Done]:
        if not self._waiting:
            return []
        batch = self._waiting.popleft()
        if self._stopping:
            return [Done(batch, error=Stopped("stopped before it began"))]
        try:
            islands = run_in_worker(
                self._job,
                batch,
                self._checkpoint_files,
                self._report_progress,
                lambda: self._stopping,
            )
        # A KeyboardInterrupt by Ctrl-C is not caught.
        except (Exception, Stopped) as error:
            return [Done(batch, error=error, lost=isinstance(error, RankLost))]
        return [Done(batch, islands)]

    def stop(self) -> None:
        self._stopping = True
