"""Saves the snapshots of a batch to a file, and restores them when a run is resumed."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable

from sbmc.islands.checkpoints.codec import Damaged, decode, encode
from sbmc.islands.checkpoints.store import Store
from sbmc.log import logger
from sbmc.samplers.snapshot import Checkpointer, Snapshot


class Stopped(KeyboardInterrupt):
    """The run was asked to stop. It has stopped, and its snapshot is saved."""


class FileCheckpointer(Checkpointer):
    """Saves the stack of a batch's snapshots in one file.

    A snapshot is made only when it is written. A snapshot that was restored stays on the stack,
    since loops inside its loop may be saved before it is offered again.

    Args:
        store: where the file is.
        name: the file. If it exists, its snapshots can be restored. A damaged file is reported
            with a warning and otherwise ignored.
        every: seconds between two writes, the first counted from now.
        clock: gives seconds.
        stop: asked whenever a snapshot is offered. When it returns True, the snapshot is written
            and `Stopped` is raised.

    Attributes:
        attempts: how many times this batch was begun.
        written: how many times the file was written.
        seconds: time spent on making snapshots and writing them.
        seconds_before: how long earlier attempts took up to the snapshot in the file.

    Examples:
        >>> from sbmc.islands.checkpoints.store import open_store
        >>> store = open_store("memory://checkpointer")
        >>> checkpointer = FileCheckpointer(store, "batch", every=0)
        >>> checkpointer.begin()
        >>> checkpointer.offer_snapshot("steps", lambda: Snapshot({}, {"step": 5}))
        >>> again = FileCheckpointer(store, "batch", every=0)
        >>> again.attempts, again.restore("steps"), again.restore("steps")
        (1, Snapshot(tensors={}, values={'step': 5}), None)
        >>> again.finish()
    """

    def __init__(
        self,
        store: Store,
        name: str,
        every: float,
        clock: Callable[[], float] = time.monotonic,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        self.store = store
        self.name = name
        self.every = every
        self.attempts = 0
        self.written = 0
        self.seconds = 0.0
        self.seconds_before = 0.0
        self._clock = clock
        self._stop = stop
        self._stack: dict[str, Snapshot | Callable[[], Snapshot]] = {}
        self._read()
        self._unrestored = set(self._stack)
        self._begun = self._last = clock()

    def begin(self) -> None:
        """Count an attempt and write that at once, since it may end before it offers a snapshot.

        Raises:
            CheckpointError: the file could not be written.
        """
        self.attempts += 1
        self._write()

    def has(self, part: str) -> bool:
        """Whether there is a snapshot of this loop that has not been restored yet."""
        return part in self._unrestored

    def restore(self, part: str) -> Snapshot | None:
        """The snapshot from which this loop has to continue; None when asked a second time."""
        if part not in self._unrestored:
            return None
        self._unrestored.remove(part)
        # A copy, since the loop changes what it is given, and the snapshot may be written again.
        return copy.deepcopy(self._made(part))

    def offer_snapshot(self, part: str, make: Callable[[], Snapshot]) -> None:
        """Put a loop's snapshot on the stack, and write the stack if that is due.

        Raises:
            CheckpointError: the file could not be written.
            Stopped: the run was asked to stop; the snapshot is written.
        """
        self.discard(part)
        self._stack[part] = make
        stopping = self._stop is not None and self._stop()
        if stopping or self._clock() - self._last >= self.every:
            self._write()
        if stopping:
            raise Stopped("stopped with the snapshot of the run written")

    def discard(self, part: str) -> None:
        """Remove a loop's snapshot from the stack, and those above it."""
        names = list(self._stack)
        for name in names[names.index(part) :] if part in self._stack else []:
            del self._stack[name]
            self._unrestored.discard(name)

    def finish(self) -> None:
        """Remove the file: the batch has ended, and its results are saved in files of their own."""
        self._stack.clear()
        self._unrestored.clear()
        self.store.remove(self.name)

    def _read(self) -> None:
        data = self.store.read(self.name)
        if data is None:
            return
        try:
            parts, values = decode(data)
        except Damaged as error:
            where = self.store.where(self.name)
            logger.warning("%s is damaged (%s): its islands start again", where, error)
            return
        self._stack = dict(parts)
        self.attempts = values["attempts"]
        self.seconds_before = values["seconds"]

    def _made(self, part: str) -> Snapshot:
        entry = self._stack[part]
        if not isinstance(entry, Snapshot):
            entry = self._stack[part] = entry()
        return entry

    def _write(self) -> None:
        begun = self._clock()
        parts = {part: self._made(part) for part in self._stack}
        spent = self.seconds_before + begun - self._begun
        values = {"attempts": self.attempts, "seconds": spent}
        self.store.write(self.name, encode(parts, values))
        # From the end of this write: a slow disk must not be written to without a pause.
        self._last = self._clock()
        self.written += 1
        self.seconds += self._last - begun
