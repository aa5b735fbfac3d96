"""Requests that wait at the same time are answered by one computation.

A thread takes the request that has waited longest, and with it all others of the same key, up to a
number of rows. It never waits for more: while it computes, others arrive, and these are the next
batch. So a lone request is answered at once, and under load batches grow by themselves.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sbmc_serve.refusals import BUSY, Refused

Key = TypeVar("Key", bound=Hashable)
Payload = TypeVar("Payload")
Result = TypeVar("Result")

RETRY_AFTER = 1  # seconds


@dataclass(eq=False)
class _Waiting(Generic[Key, Payload, Result]):
    key: Key
    payload: Payload
    rows: int
    future: Future[Result] = field(default_factory=Future)


class Batcher(Generic[Key, Payload, Result]):
    """Joins requests, and computes them in a thread of its own.

    Args:
        compute: `(key, payloads) -> results`, one for each payload: a result, or an exception that
            this payload alone is answered with. If it raises, the payloads are tried one by one, so
            that a request suffers from its own faults only.
        batch_rows: rows of a batch, at most, unless one request has more.
        queue: requests that wait, at most.
        observe: called with the rows of each request of a batch, after it was computed.

    Examples:
        >>> def double(key, payloads):
        ...     return [2 * payload for payload in payloads]
        >>> batcher = Batcher(double, batch_rows=8, queue=8)
        >>> batcher.start()
        >>> asyncio.run(batcher.ask("any", 21, rows=1, seconds=10.0))
        42
        >>> batcher.stop()
    """

    def __init__(
        self,
        compute: Callable[[Key, Sequence[Payload]], Sequence[Result | Exception]],
        *,
        batch_rows: int,
        queue: int,
        observe: Callable[[list[int]], None] = lambda rows: None,
    ) -> None:
        self._compute = compute
        self._batch_rows = batch_rows
        self._most_waiting = queue
        self._observe = observe
        self._waiting: deque[_Waiting[Key, Payload, Result]] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return len(self._waiting)

    @property
    def alive(self) -> bool:
        """Whether requests are answered."""
        works = self._thread is None or self._thread.is_alive()
        return works and not self._stopping

    def start(self) -> None:
        """Begin to answer; the first request does it too."""
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="sbmc-predictions", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Answer what waits, and end the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    async def ask(self, key: Key, payload: Payload, *, rows: int, seconds: float) -> Result:
        """Wait for the answer to a request.

        Args:
            key: requests of the same key can be joined.
            payload: what is asked.
            rows: of the payload.
            seconds: to wait, at most. A request that still waits then is dropped. One that is being
                computed is computed to its end, and its answer is dropped.

        Returns:
            The result.

        Raises:
            Refused: the queue is full, or the server is stopping.
            TimeoutError: it took too long.
            Exception: what `compute` gave for this payload.
        """
        request = _Waiting[Key, Payload, Result](key, payload, rows)
        with self._changed:
            self._require_room()
            if self._thread is None:  # in an application that has not said that it starts
                self.start()
            self._waiting.append(request)
            self._changed.notify()
        try:
            # A future that is cancelled before its turn is left out by the thread.
            return await asyncio.wait_for(asyncio.wrap_future(request.future), seconds)
        finally:
            self._forget(request)

    def _require_room(self) -> None:
        if not self.alive:
            raise Refused(
                BUSY,
                "server",
                "running",
                "one that is stopping",
                "Send the request to another server, or again later.",
                {"Retry-After": str(RETRY_AFTER)},
            )
        if len(self._waiting) >= self._most_waiting:
            raise Refused(
                BUSY,
                "server",
                f"free to take the request: at most {self._most_waiting:,} wait",
                f"{len(self._waiting):,} that wait already",
                "Try again in a second, or join rows into fewer requests.",
                {"Retry-After": str(RETRY_AFTER)},
            )

    def _forget(self, request: _Waiting[Key, Payload, Result]) -> None:
        """Take a request that was given up out of the queue, so that it leaves room."""
        if request.future.cancelled():
            with self._changed:
                if request in self._waiting:
                    self._waiting.remove(request)

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._stopping:
                    self._changed.wait()
                if not self._waiting:
                    return
                batch = self._next_batch()
            if batch:
                self._answer(batch)

    def _next_batch(self) -> list[_Waiting[Key, Payload, Result]]:
        batch: list[_Waiting[Key, Payload, Result]] = []
        left: deque[_Waiting[Key, Payload, Result]] = deque()
        rows = 0
        for request in self._waiting:
            fits = not batch or (
                request.key == batch[0].key and rows + request.rows <= self._batch_rows
            )
            if not fits:
                left.append(request)
            elif request.future.set_running_or_notify_cancel():
                batch.append(request)
                rows += request.rows
        self._waiting = left
        return batch

    def _answer(self, batch: list[_Waiting[Key, Payload, Result]]) -> None:
        try:
            results = self._compute(batch[0].key, [request.payload for request in batch])
            answered = list(zip(batch, results, strict=True))
        # Whatever goes wrong, the thread has to go on, and the request to be answered.
        except Exception as error:
            if len(batch) > 1:
                for request in batch:
                    self._answer([request])
                return
            answered = [(batch[0], error)]
        for request, result in answered:
            if isinstance(result, Exception):
                request.future.set_exception(result)
            else:
                request.future.set_result(result)
        self._observe([request.rows for request in batch])
