"""Writes a batch's place to a file now and then, and gives it back to the run that goes on."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable

from sbmc.islands.checkpoints.codec import Damaged, decode, encode
from sbmc.islands.checkpoints.store import Store
from sbmc.log import logger
from sbmc.samplers.snapshot import Keeper, Snapshot


class Stopped(KeyboardInterrupt):
    """The run was asked to stop, and has, with its place written."""


class FileKeeper(Keeper):
    """Keeps the stack of a batch's places in one file.

    A place is made into tensors only when it is written. A place that was recalled still stands on
    the stack, since loops inside it may be written before it is offered again.

    Args:
        store: where the file is.
        name: the file. If it is there, its places can be recalled; a damaged one is reported and
            counts as not there.
        every: seconds between two writes, the first counted from now.
        clock: gives seconds.
        stop: asked whenever a place is offered. Once it says yes, the place is written and
            `Stopped` raised.

    Attributes:
        attempts: how many times this batch was begun.
        written: how many times the file was written.
        seconds: time spent on making places and writing them.
        seconds_before: what earlier attempts took up to the place that was found.

    Example:
        >>> from sbmc.islands.checkpoints.store import open_store
        >>> store = open_store("memory://keeper")
        >>> keeper = FileKeeper(store, "batch", every=0)
        >>> keeper.begin()
        >>> keeper.offer("steps", lambda: Snapshot({}, {"step": 5}))
        >>> again = FileKeeper(store, "batch", every=0)
        >>> again.attempts, again.recall("steps"), again.recall("steps")
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
        self._found = set(self._stack)  # those that nobody has recalled
        self._begun = self._last = clock()

    def begin(self) -> None:
        """Count an attempt, and write that at once: it may end before it offers a place.

        Raises:
            CheckpointError: the file could not be written.
        """
        self.attempts += 1
        self._write()

    def has(self, part: str) -> bool:
        """Whether a place of this loop was found, and has not been recalled."""
        return part in self._found

    def recall(self, part: str) -> Snapshot | None:
        """The place that this loop has to go on from; once, and None after that."""
        if part not in self._found:
            return None
        self._found.remove(part)
        # A copy: the loop goes on from it, while the place itself may have to be written again.
        return copy.deepcopy(self._made(part))

    def offer(self, part: str, make: Callable[[], Snapshot]) -> None:
        """Put a loop's place on the stack, and write the stack if that is due.

        Raises:
            CheckpointError: the file could not be written.
            Stopped: the run is to stop; the place is written.
        """
        self.leave(part)
        self._stack[part] = make
        stopping = self._stop is not None and self._stop()
        if stopping or self._clock() - self._last >= self.every:
            self._write()
        if stopping:
            raise Stopped("stopped with the place of the run written")

    def leave(self, part: str) -> None:
        """Take a loop's place off the stack, with whatever stands above it."""
        names = list(self._stack)
        for name in names[names.index(part) :] if part in self._stack else []:
            del self._stack[name]
            self._found.discard(name)

    def finish(self) -> None:
        """Remove the file: the batch has ended, and its results are kept elsewhere."""
        self._stack.clear()
        self._found.clear()
        self.store.remove(self.name)

    def _read(self) -> None:
        data = self.store.read(self.name)
        if data is None:
            return
        try:
            parts, values = decode(data)
        except Damaged as error:
            where = self.store.where(self.name)
            logger.warning("%s is damaged (%s): its islands begin anew", where, error)
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
