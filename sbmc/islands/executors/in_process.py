"""This process: islands folded into batches that fit, one batch after the other."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from sbmc.checks import is_whole, require
from sbmc.islands.checkpoints import CheckpointFiles, Stopped
from sbmc.islands.executors.contract import Done, Executor, Session, Tell, run_in_worker
from sbmc.islands.work import Batch

if TYPE_CHECKING:
    from sbmc.islands.work import Work


@dataclass(frozen=True, kw_only=True)
class InProcess(Executor):
    """Run the islands in this process.

    Args:
        fold: most positions of one batch, by rule if not given; with 1 every island is a batch of
            its own, as it is in all other executors.
        threads: that torch may use; as many as it does if not given.

    Raises:
        BadInput: one of them is not positive.

    Example:
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
            good = value is None or (is_whole(value) and value >= 1)
            require(good, name, "a positive integer or None", value)

    @property
    def threads_each(self) -> int:
        """Threads that torch may use for a batch."""
        return torch.get_num_threads() if self.threads is None else self.threads

    def open(self, work: Work, checkpoint_files: CheckpointFiles | None, tell: Tell) -> Session:
        """Nothing is to be started."""
        return _Session(work, checkpoint_files, tell)


class _Session(Session):
    def __init__(self, work: Work, checkpoint_files: CheckpointFiles | None, tell: Tell) -> None:
        self._work, self._checkpoint_files, self._tell = work, checkpoint_files, tell
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
                self._work, batch, self._checkpoint_files, self._tell, lambda: self._stopping
            )
        # Ctrl-C itself passes.
        except (Exception, Stopped) as error:
            return [Done(batch, error=error)]
        return [Done(batch, islands)]

    def stop(self) -> None:
        self._stopping = True
