"""A worker process: runs the batches that its parent sends, one after the other.

It is started by `sbmc.islands.executors.processes`, gets messages on standard input and answers on
what was its standard output. It ends when its parent does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import signal
import sys
import threading
from typing import IO, Any

from sbmc.islands.executors.frames import receive, send
from sbmc.islands.executors.sending import attempt

_PR_SET_PDEATHSIG = 1


def main(parent: int) -> None:
    """Work until the parent closes the pipe.

    Args:
        parent: its process number.
    """
    _die_with(parent)
    # What a model prints goes to standard error: standard output carries the answers.
    answers = os.fdopen(os.dup(1), "wb")
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    payload, digest = receive(requests)
    send(answers, ("ready", None))
    batches: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stopping = threading.Event()
    threading.Thread(target=_listen, args=(requests, batches, stopping), daemon=True).start()

    while True:
        batch = batches.get()

        def tell(_: Any, fields: dict[str, Any]) -> None:
            send(answers, ("progress", fields))

        send(answers, ("done", attempt(payload, digest, batch, tell, stopping.is_set)))


def _listen(
    requests: IO[bytes], batches: queue.SimpleQueue[Any], stopping: threading.Event
) -> None:
    """Take requests while a batch runs: to stop it, above all."""
    try:
        while True:
            kind, value = receive(requests)
            if kind == "stop":
                stopping.set()
            else:
                batches.put(value)
    finally:
        # The parent has closed the pipe or died; a batch in the main thread would go on.
        os._exit(0)


def _die_with(parent: int) -> None:
    """Have Linux kill this process when its parent dies, however busy it is then."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if sys.platform != "win32" and os.getppid() != parent:  # it was quicker
        os._exit(0)
