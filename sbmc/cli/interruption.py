"""Ctrl-C with a message: what is done, and how to continue."""

from collections.abc import Iterator
from contextlib import contextmanager


class Interruption(Exception):
    """A command was interrupted, and the message says how to continue it.

    This is no `KeyboardInterrupt`, because the parser of the command line drops the message of one.
    """


@contextmanager
def explain_interruption(message: str) -> Iterator[None]:
    """Turn Ctrl-C into an `Interruption`.

    Args:
        message: what is saved, and how to continue.

    Raises:
        Interruption: there was Ctrl-C.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interruption(f"interrupted; {message}") from error
