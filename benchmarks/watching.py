"""An executor looked over its shoulder: when islands began and ended, and what was written."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from sbmc.islands.checkpoints import CheckpointFiles, FileCheckpointer
from sbmc.islands.executors import Done, Executor, ProgressCallback, Session
from sbmc.islands.executors.serialization import pack_job
from sbmc.islands.island import Island
from sbmc.islands.job import Batch, Job


@dataclass
class Seen:
    """What was seen of a run.

    Attributes:
        opened: when workers were asked for; all times are those of `time.perf_counter`.
        begun: when the first island began to compute; workers had to be started before.
        ended: when the last batch came back.
        batch_seconds: what the batches took, as the workers measured it.
        driver_cpu: seconds of computing of the driver's process, its threads included, from when
            the workers were asked for to the end; those of starting a cluster are left out.
        payload_bytes: the packed work, which goes to every worker once.
        result_bytes: the positions of all islands, which come back.
        checkpointers: of the checkpoint; only where the executor works in this process.
        keep_seconds: time spent on writing results, likewise.
    """

    opened: float = 0.0
    begun: float = float("inf")
    ended: float = 0.0
    batch_seconds: list[float] = field(default_factory=list)
    driver_cpu: float = 0.0
    payload_bytes: int = 0
    result_bytes: int = 0
    checkpointers: list[FileCheckpointer] = field(default_factory=list)
    keep_seconds: float = 0.0

    @property
    def start_up(self) -> float:
        """Seconds until the first island began."""
        return self.begun - self.opened

    @property
    def sampling(self) -> float:
        """Seconds from there to the end of the last."""
        return self.ended - self.begun

    def timing(self) -> dict[str, float]:
        """What a record keeps of a run."""
        return {
            "seconds": self.sampling,
            "start_up_seconds": self.start_up,
            "driver_cpu_seconds": self.driver_cpu,
            "computing_seconds": sum(self.batch_seconds),
        }


@dataclass(frozen=True, eq=False)
class Watched(Executor):
    """Another executor, with notes taken of what it does.

    Args:
        inner: does the work.
        seen: the notes, new ones for each run.
        window: have the driver keep so many batches under way, as it would on so many workers;
            those for which there is no worker wait.
    """

    inner: Executor
    seen: Seen
    window: int | None = None

    name = "watched"
    summary = "another executor, watched"
    folds = property(lambda self: self.inner.folds)  # type: ignore[assignment]
    fold = property(lambda self: self.inner.fold)  # type: ignore[assignment]
    workers = property(lambda self: self.inner.workers)  # type: ignore[assignment]

    @property
    def threads_each(self) -> int:
        """Threads that torch may use for a batch."""
        return self.inner.threads_each

    def open(
        self, job: Job, checkpoint_files: CheckpointFiles | None, report_progress: ProgressCallback
    ) -> Session:
        """Open the other's session."""
        self.seen.payload_bytes = len(pack_job(job, checkpoint_files))
        watched = (
            None
            if checkpoint_files is None
            else _WatchedCheckpointFiles(checkpoint_files.store, checkpoint_files.every, self.seen)
        )
        self.seen.opened = time.perf_counter()
        return _Session(self.inner.open(job, watched, report_progress), self.seen, self.window)


class _Session(Session):
    def __init__(self, inner: Session, seen: Seen, window: int | None) -> None:
        self._inner, self._seen, self._window = inner, seen, window
        self._cpu = time.process_time()

    @property
    def window(self) -> int:  # type: ignore[override]
        return self._window or self._inner.window

    def submit(self, batch: Batch) -> None:
        self._inner.submit(batch)

    def wait(self, timeout: float) -> list[Done]:
        found, seen = self._inner.wait(timeout), self._seen
        now = time.perf_counter()
        for done in found:
            islands = done.islands or []
            seconds = sum(island.report.seconds for island in islands)
            seen.begun = min(seen.begun, now - seconds)
            seen.batch_seconds.append(seconds)
            seen.result_bytes += sum(_size(island) for island in islands)
        if found:
            seen.ended, seen.driver_cpu = now, time.process_time() - self._cpu
        return found

    def stop(self) -> None:
        self._inner.stop()

    def close(self) -> None:
        self._inner.close()


@dataclass(frozen=True)
class _WatchedCheckpointFiles(CheckpointFiles):
    seen: Seen

    def checkpointer(self, batch: Any, stop: Any = None) -> FileCheckpointer:
        checkpointer = super().checkpointer(batch, stop)
        self.seen.checkpointers.append(checkpointer)
        return checkpointer

    def save_islands(self, islands: Any) -> None:
        began = time.perf_counter()
        super().save_islands(islands)
        self.seen.keep_seconds += time.perf_counter() - began


def _size(island: Island) -> int:
    held = island.positions
    return 0 if held is None else held.numel() * held.element_size()
