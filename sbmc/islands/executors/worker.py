"""A worker process, which runs the batches that its parent sends, one after the other.

It is started by `sbmc.islands.executors.processes`, reads messages from standard input and writes
its answers to what was its standard output. It ends when its parent ends.
"""

from __future__ import annotations

import os
import queue
import threading
from typing import IO, Any

from sbmc.islands.executors.pipe_messages import receive, send
from sbmc.islands.executors.serialization import attempt
from sbmc.target.shards.child_process import die_with


def main(parent: int) -> None:
    """Run batches until the parent closes the pipe.

    Args:
        parent: its process number.
    """
    die_with(parent)
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

        def report_progress(_: Any, fields: dict[str, Any]) -> None:
            send(answers, ("progress", fields))

        send(answers, ("done", attempt(payload, digest, batch, report_progress, stopping.is_set)))


def _listen(
    requests: IO[bytes], batches: queue.SimpleQueue[Any], stopping: threading.Event
) -> None:
    """Read requests while a batch runs, above all the request to stop."""
    try:
        while True:
            kind, value = receive(requests)
            if kind == "stop":
                stopping.set()
            else:
                batches.put(value)
    finally:
        # The parent has closed the pipe or died. A batch in the main thread would continue to run.
        os._exit(0)
