"""A server in a process of its own, and clients that ask it many things at once.

The client is written on plain sockets, since on a small machine a comfortable one would take more
time than the server.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

SECONDS = 120


class Answer(NamedTuple):
    """What came back, and how long it took; status 0 if the connection broke."""

    status: int
    body: bytes
    seconds: float


class ServerProcess:
    """`sbmc serve` in a process of its own, on a port of the loopback address.

    Args:
        arguments: of the command, with the files or `--digits`.
        cache: the folder in which the posteriors of the digits are kept.
        port: 0 for any that is free.
    """

    def __init__(self, arguments: Sequence[str], cache: Path, port: int = 0) -> None:
        command = [sys.executable, "-m", "sbmc", "serve", *arguments, "--quiet"]
        self.process = subprocess.Popen(
            [*command, "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if "serving at http://" not in line:
            _, errors = self.process.communicate()
            raise RuntimeError(f"the server did not start: {line}{errors}")
        self.port = int(line.split("http://127.0.0.1:")[1].split("/")[0])

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def get(self, path: str) -> str:
        """The text at a path."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=SECONDS) as page:
            return page.read().decode()

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal and wait; the exit code, and what was printed as errors."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, errors


def send_all(port: int, bodies: Sequence[bytes], at_once: int) -> tuple[list[Answer], float]:
    """Send bodies over so many connections at once, each of them one after another.

    Args:
        port: of the server.
        bodies: of the requests; the answers come in their order.
        at_once: how many connections.

    Returns:
        The answers, and the seconds that all of them took.
    """
    return asyncio.run(_send_all(port, bodies, at_once))


async def _send_all(port: int, bodies: Sequence[bytes], at_once: int) -> tuple[list[Answer], float]:
    answers: list[Answer | None] = [None] * len(bodies)
    waiting = iter(enumerate(bodies))
    started = time.perf_counter()
    await asyncio.gather(*(_one_client(port, waiting, answers) for _ in range(at_once)))
    seconds = time.perf_counter() - started
    return [answer or Answer(0, b"", 0.0) for answer in answers], seconds


async def _one_client(
    port: int, waiting: Iterable[tuple[int, bytes]], answers: list[Answer | None]
) -> None:
    reader: asyncio.StreamReader | None = None
    writer: asyncio.StreamWriter | None = None
    for number, body in waiting:
        started = time.perf_counter()
        try:
            if reader is None or writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            status, content = await asyncio.wait_for(_ask(reader, writer, body), SECONDS)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            status, content = 0, b""
            if writer is not None:
                writer.close()
            reader = writer = None
        answers[number] = Answer(status, content, time.perf_counter() - started)
    if writer is not None:
        writer.close()


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes
) -> tuple[int, bytes]:
    writer.write(
        b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body) + body
    )
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length:")
    )
    return int(head.split(b" ", 2)[1]), await reader.readexactly(length)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that so large a share of all do not exceed.

    Examples:
        >>> percentile([3.0, 1.0, 2.0, 4.0], 0.5)
        2.0
    """
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


def counted(metrics: str, name: str) -> float:
    """A number without labels in the text of `/metrics`."""
    line = next(line for line in metrics.splitlines() if line.startswith(f"{name} "))
    return float(line.split(" ")[1])


def content_of(answer: Answer) -> Any:
    """The JSON of an answer."""
    return json.loads(answer.body)
