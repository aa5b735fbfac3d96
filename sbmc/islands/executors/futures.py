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

from sbmc.checks import require, require_count
from sbmc.islands.checkpoints import CheckpointFiles, Stopped
from sbmc.islands.executors.contract import (
    GRACE,
    PROGRESS_INTERVAL,
    Done,
    Executor,
    ProgressCallback,
    Session,
)
from sbmc.islands.executors.serialization import as_done, attempt, digest_of, pack_job
from sbmc.islands.job import Batch

if TYPE_CHECKING:
    from sbmc.islands.job import Job

# Batches that are submitted to a pool that does not say how many it runs at a time.
_WINDOW = 64


@dataclass(frozen=True)
class Futures(Executor):
    """Run every island as a task of a pool that you have made and that you close yourself.

    Examples are `ProcessPoolExecutor`, `ThreadPoolExecutor`, Dask's `client.get_executor()` and
    `mpi4py.futures.MPIPoolExecutor`. The job is sent with every task, since a pool offers no other
    way. It is unpacked once in each process. The threads of a process take turns with a model that
    is not evaluated on the fused path. Progress is shown when islands end.

    Args:
        executor: the pool.
        threads: how many threads torch may use for an island: by default 1, but in a
            `ThreadPoolExecutor` as many as torch uses now, since all threads of a process share
            that number.

    Raises:
        BadInput: `executor` is not a pool, or `threads` is not positive.

    Examples:
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
        require_count("threads", self.threads, optional=True)

    @property
    def workers(self) -> int | None:  # type: ignore[override]
        """How many batches the pool runs at a time, if it reports that."""
        return getattr(self.executor, "_max_workers", None)

    @property
    def threads_each(self) -> int:
        """Threads that torch may use for a batch."""
        if self.threads is None and isinstance(self.executor, cf.ThreadPoolExecutor):
            return torch.get_num_threads()
        return self.threads or 1

    def open(
        self, job: Job, checkpoint_files: CheckpointFiles | None, report_progress: ProgressCallback
    ) -> Session:
        """Pack the job."""
        window = 2 * self.workers if self.workers else _WINDOW
        return _Session(self.executor, pack_job(job, checkpoint_files), window)


class _Session(Session):
    def __init__(self, pool: cf.Executor, payload: bytes, window: int) -> None:
        self.window = window
        self._pool, self._payload = pool, payload
        self._digest = digest_of(payload)
        # Tasks on this machine run for as long as this folder exists.
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
                f"the pool that was given as `executor` accepts no more tasks ({error}), and sbmc "
                "cannot make it again; with a checkpoint, the run can continue in a new pool."
            ) from error
        self._under_way[future] = batch

    def wait(self, timeout: float) -> list[Done]:
        if self._stopping and self._deadline is None:
            self._deadline = time.monotonic() + GRACE
            self._cancel_all()
        ended, unfinished = cf.wait(self._under_way, timeout, cf.FIRST_COMPLETED)
        done = [self._done(future, self._under_way.pop(future)) for future in ended]
        if self._deadline is not None and time.monotonic() > self._deadline:
            message = "it did not stop, and a pool cannot end a single task"
            done += [Done(self._under_way.pop(f), error=RuntimeError(message)) for f in unfinished]
        return done

    def _done(self, future: cf.Future, batch: Batch) -> Done:
        if future.cancelled():
            return Done(batch, error=Stopped("stopped before it began"))
        error = future.exception()
        if error is None:
            return as_done(batch, future.result())
        if isinstance(error, KeyboardInterrupt):  # Ctrl-C reaches the processes of a pool, too
            return Done(batch, error=Stopped("stopped"))
        # The task itself never raises an error, so the pool has lost its worker.
        return Done(batch, error=error, lost=True)

    def _cancel_all(self) -> None:
        shutil.rmtree(self._token, ignore_errors=True)
        for future in self._under_way:
            future.cancel()

    def stop(self) -> None:
        self._stopping = True

    def close(self) -> None:
        self._cancel_all()


def _task(payload: bytes, digest: str, batch: Batch, token: tuple[str, str]) -> bytes:
    """The function that the pool runs."""
    host, folder = token
    same_machine = socket.gethostname() == host
    last, stopping = time.monotonic(), False

    def stop() -> bool:
        nonlocal last, stopping
        if same_machine and not stopping and time.monotonic() - last >= PROGRESS_INTERVAL:
            last, stopping = time.monotonic(), not os.path.isdir(folder)
        return stopping

    return attempt(payload, digest, batch, lambda batch, fields: None, stop)
