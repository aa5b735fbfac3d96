"""Messages over a pipe: the length of the pickled message in eight bytes, then the message."""

from __future__ import annotations

import pickle
from typing import IO, Any

_LENGTH = 8


def send(stream: IO[bytes], message: Any) -> None:
    """Write a message.

    Raises:
        OSError: the other side has closed the pipe.
    """
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(len(data).to_bytes(_LENGTH, "big"))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read a message.

    Raises:
        EOFError: the other side has closed the pipe, or died.

    Examples:
        >>> import io
        >>> pipe = io.BytesIO()
        >>> send(pipe, ("run", (0, 1)))
        >>> _ = pipe.seek(0)
        >>> receive(pipe)
        ('run', (0, 1))
        >>> receive(pipe)
        Traceback (most recent call last):
        ...
        EOFError
    """
    length = int.from_bytes(_exactly(stream, _LENGTH), "big")
    return pickle.loads(_exactly(stream, length))


def _exactly(stream: IO[bytes], count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data
