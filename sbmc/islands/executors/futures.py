"""Any `concurrent.futures.Executor`: pools of the standard library, of Dask, of MPI."""

from __future__ import annotations

import concurrent.futures as cf
import os
import shutil
import socket
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from sbmc.checks import is_whole, require
from sbmc.islands.checkpoints import CheckpointFiles, Stopped
from sbmc.islands.executors.contract import GRACE, TELL_INTERVAL, Done, Executor, Session, Tell
from sbmc.islands.executors.sending import as_done, attempt, digest_of, pack_work
from sbmc.islands.work import Batch

if TYPE_CHECKING:
    from sbmc.islands.work import Work

# Batches that are handed to a pool of which it is not known how many it runs at a time.
_WINDOW = 64


@dataclass(frozen=True)
class Futures(Executor):
    """Run every island as a task of a pool that you have made, and that stays yours.

    Such as `ProcessPoolExecutor`, `ThreadPoolExecutor`, Dask's `client.get_executor()` and
    `mpi4py.futures.MPIPoolExecutor`. The work travels with every task, since a pool has no other
    way; it is unpacked once in each of its processes, whose threads take turns with a model that is
    not evaluated on the fused path. Progress is heard of when islands end.

    Args:
        executor: the pool.
        threads: that torch may use for an island: by default 1, but in a `ThreadPoolExecutor` as
            many as it does, since all threads of a process share that number.

    Raises:
        BadInput: it is no pool, or `threads` is not positive.

    Example:
        >>> with cf.ThreadPoolExecutor(2) as pool:
        ...     Futures(pool).workers
        2
    """

    executor: cf.Executor
    threads: int | None = None

    name: ClassVar[str] = "futures"
    summary: ClassVar[str] = "any concurrent.futures.Executor"

    def __post_init__(self) -> None:
        good = isinstance(self.executor, cf.Executor)
        require(good, "executor", "a concurrent.futures.Executor", self.executor)
        good = self.threads is None or (is_whole(self.threads) and self.threads >= 1)
        require(good, "threads", "a positive integer or None", self.threads)

    @property
    def workers(self) -> int | None:  # type: ignore[override]
        """How many batches the pool runs at a time, if it says so."""
        return getattr(self.executor, "_max_workers", None)

    @property
    def threads_each(self) -> int:
        """Threads that torch may use for a batch."""
        if self.threads is None and isinstance(self.executor, cf.ThreadPoolExecutor):
            return torch.get_num_threads()
        return self.threads or 1

    def open(self, work: Work, checkpoint_files: CheckpointFiles | None, tell: Tell) -> Session:
        """Pack the work."""
        window = 2 * self.workers if self.workers else _WINDOW
        return _Session(self.executor, pack_work(work, checkpoint_files), window)


class _Session(Session):
    def __init__(self, pool: cf.Executor, payload: bytes, window: int) -> None:
        self.window = window
        self._pool, self._payload = pool, payload
        self._digest = digest_of(payload)
        # Tasks on this machine go on for as long as this folder is there.
        self._token = tempfile.mkdtemp(prefix="sbmc-")
        self._under_way: dict[cf.Future, Batch] = {}
        self._stopping = False
        self._deadline: float | None = None

    def submit(self, batch: Batch) -> None:
        token = socket.gethostname(), self._token
        try:
            future = self._pool.submit(_task, self._payload, self._digest, batch, token)
        except RuntimeError as error:  # BrokenExecutor is one, and so is a pool that was shut down
            raise RuntimeError(
                f"the pool that was given as `executor` takes no more work ({error}). It is yours, "
                "and cannot be made again here; with a checkpoint, the run can go on in a new one."
            ) from error
        self._under_way[future] = batch

    def wait(self, timeout: float) -> list[Done]:
        if self._stopping and self._deadline is None:
            self._deadline = time.monotonic() + GRACE
            self._call_off()
        ended, others = cf.wait(self._under_way, timeout, cf.FIRST_COMPLETED)
        done = [self._done(future, self._under_way.pop(future)) for future in ended]
        if self._deadline is not None and time.monotonic() > self._deadline:
            words = "it did not stop, and its pool can end it only as a whole"
            done += [Done(self._under_way.pop(f), error=RuntimeError(words)) for f in others]
        return done

    def _done(self, future: cf.Future, batch: Batch) -> Done:
        if future.cancelled():
            return Done(batch, error=Stopped("stopped before it began"))
        error = future.exception()
        if error is None:
            return as_done(batch, future.result())
        if isinstance(error, KeyboardInterrupt):  # Ctrl-C reaches the processes of a pool, too
            return Done(batch, error=Stopped("stopped"))
        # The task itself raises nothing: the pool has lost its worker.
        return Done(batch, error=error, lost=True)

    def _call_off(self) -> None:
        shutil.rmtree(self._token, ignore_errors=True)
        for future in self._under_way:
            future.cancel()

    def stop(self) -> None:
        self._stopping = True

    def close(self) -> None:
        self._call_off()


def _task(payload: bytes, digest: str, batch: Batch, token: tuple[str, str]) -> bytes:
    """What the pool runs."""
    host, folder = token
    here = socket.gethostname() == host
    last, gone = time.monotonic(), False

    def stop() -> bool:
        nonlocal last, gone
        if here and not gone and time.monotonic() - last >= TELL_INTERVAL:
            last, gone = time.monotonic(), not os.path.isdir(folder)
        return gone

    return attempt(payload, digest, batch, lambda batch, fields: None, stop)
