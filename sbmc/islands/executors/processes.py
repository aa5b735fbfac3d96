"""Runs islands in worker processes of this machine, which are started for a run and end with it."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sbmc.checks import require_count
from sbmc.islands.checkpoints import CheckpointFiles, Stopped
from sbmc.islands.executors.contract import (
    GRACE,
    Done,
    Executor,
    ProgressCallback,
    Session,
    WorkerLost,
    available_cores,
)
from sbmc.islands.executors.pipe_messages import receive, send
from sbmc.islands.executors.serialization import as_done, digest_of, pack_job
from sbmc.islands.job import Batch
from sbmc.log import logger

if TYPE_CHECKING:
    from sbmc.islands.job import Job

# A worker gets exactly the parent's search path: the folder in which it starts may hold files that
# hide other modules.
_BEGIN = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from sbmc.islands.executors.worker import main; main(int(sys.argv[1]))"
)
_THREADS = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB")
# If so many workers in a row die before they are ready, the run fails, since the next ones would
# die too. If some workers have started well before, more failures are allowed.
_MOST_FAILED_STARTS, _MOST_FAILED_STARTS_LATER = 3, 10


@dataclass(frozen=True, kw_only=True)
class Processes(Executor):
    """Run every island in a process of this machine.

    Models, data and likelihoods are sent to each worker once. Code that was defined in a script, a
    notebook or a lambda is sent along, and a script needs no `if __name__ == "__main__"`.

    Args:
        workers: how many processes; one for each core if not given.
        threads: how many threads torch may use in each; by default the cores are divided evenly.

    Raises:
        BadInput: a value is not positive.

    Examples:
        >>> Processes(workers=2).workers
        2
        >>> Processes(workers=0)
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `workers` must be a positive integer or None, but got 0.
    """

    name: ClassVar[str] = "processes"
    summary: ClassVar[str] = "processes of this machine, an island in each"
    workers: int | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("workers", self.workers), ("threads", self.threads)):
            require_count(name, value, optional=True)

    @property
    def threads_each(self) -> int:
        """Threads that torch may use for a batch."""
        cores = available_cores()
        return self.threads or max(1, cores // (self.workers or cores))

    def open(
        self, job: Job, checkpoint_files: CheckpointFiles | None, report_progress: ProgressCallback
    ) -> Session:
        """Pack the job; workers are started when batches are submitted."""
        threads = self.threads_each if job.threads is None else job.threads
        payload = pack_job(job, checkpoint_files)
        return _Session(payload, self.workers or available_cores(), threads, report_progress)


class _Worker:
    """A worker process, and a thread that puts its messages into a queue."""

    def __init__(
        self, payload: tuple[bytes, str], threads: int, messages: queue.SimpleQueue
    ) -> None:
        limits = {f"{name}_NUM_THREADS": str(threads) for name in _THREADS}
        paths = [path or os.getcwd() for path in sys.path]
        self.process = subprocess.Popen(
            [sys.executable, "-c", _BEGIN, str(os.getpid()), *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **limits},
            start_new_session=True,  # Ctrl-C goes to the parent alone
        )
        self.batch: Batch | None = None
        self.ready = False
        self._thread = threading.Thread(target=self._listen, args=(payload, messages), daemon=True)
        self._thread.start()

    def _listen(self, payload: tuple[bytes, str], messages: queue.SimpleQueue) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            # In this thread, since a worker needs seconds to start reading, and other workers have
            # to be started meanwhile.
            send(self.process.stdin, payload)
            while True:
                messages.put((self, *receive(self.process.stdout)))
        except (EOFError, OSError, ValueError):
            messages.put((self, "gone", None))

    def send_message(self, kind: str, value: Any = None) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # it has died, and its thread will report that
            send(self.process.stdin, (kind, value))

    def end(self) -> int:
        """Kill the process and those that it has started, and wait until it has ended."""
        if hasattr(os, "killpg"):
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        code = self.process.wait()
        self._thread.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        return code


class _Session(Session):
    def __init__(
        self, payload: bytes, workers: int, threads: int, report_progress: ProgressCallback
    ) -> None:
        self.window = workers
        self._payload = payload, digest_of(payload)
        self._threads, self._report_progress = threads, report_progress
        self._messages: queue.SimpleQueue[tuple[_Worker, str, Any]] = queue.SimpleQueue()
        self._workers: list[_Worker] = []
        self._waiting: deque[Batch] = deque()
        self._failed_starts = 0
        self._some_began = False
        self._stopping = False
        self._deadline: float | None = None

    def submit(self, batch: Batch) -> None:
        self._waiting.append(batch)
        self._assign()

    def _assign(self) -> None:
        for worker in self._workers:
            if self._waiting and worker.batch is None:
                worker.batch = self._waiting.popleft()
                if worker.ready:
                    worker.send_message("run", worker.batch)
        while self._waiting and len(self._workers) < self.window:
            worker = _Worker(self._payload, self._threads, self._messages)
            worker.batch = self._waiting.popleft()
            self._workers.append(worker)

    def wait(self, timeout: float) -> list[Done]:
        until = time.monotonic() + timeout
        if self._stopping and self._deadline is None:
            return self._begin_to_stop()
        if self._deadline is not None and time.monotonic() > self._deadline:
            for worker in self._workers:
                worker.process.kill()
        while True:
            try:
                worker, kind, value = self._messages.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return []
            done = self._on_message(worker, kind, value)
            if done is not None:
                self._assign()
                return [done]

    def _on_message(self, worker: _Worker, kind: str, value: Any) -> Done | None:
        batch = worker.batch
        if kind == "ready":
            worker.ready, self._some_began, self._failed_starts = True, True, 0
            if batch is not None:
                worker.send_message("run", batch)
        elif kind == "progress" and batch is not None:
            self._report_progress(batch, value)
        elif kind == "done" and batch is not None:
            worker.batch = None
            return as_done(batch, value)
        elif kind == "gone" and worker in self._workers:
            return self._remove_dead(worker)
        return None

    def _remove_dead(self, worker: _Worker) -> Done | None:
        self._workers.remove(worker)
        code, batch = worker.end(), worker.batch
        cause = f"its process ended by signal {-code}" if code < 0 else f"its process ended: {code}"
        if not worker.ready and not self._stopping:
            self._failed_starts += 1
            if self._failed_starts >= (
                _MOST_FAILED_STARTS_LATER if self._some_began else _MOST_FAILED_STARTS
            ):
                raise RuntimeError(
                    f"{self._failed_starts} workers in a row died while they started ({cause}); "
                    "standard error has their messages."
                )
        if batch is None:
            return None
        logger.debug("worker %d, islands %s: %s", worker.process.pid, list(batch), cause)
        return Done(batch, error=WorkerLost(cause), lost=True)

    def _begin_to_stop(self) -> list[Done]:
        self._deadline = time.monotonic() + GRACE
        done = [Done(b, error=Stopped("stopped before it began")) for b in self._waiting]
        self._waiting.clear()
        for worker in self._workers:
            if worker.ready:
                worker.send_message("stop")
            else:
                worker.process.kill()
        return done

    def stop(self) -> None:
        self._stopping = True

    def close(self) -> None:
        for worker in self._workers:
            worker.end()
        self._workers.clear()
