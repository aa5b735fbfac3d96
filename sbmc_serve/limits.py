"""How much a server takes on."""

from __future__ import annotations

from dataclasses import dataclass

from sbmc.checks import is_finite, require, require_count

MOST_SECONDS = 86_400


@dataclass(frozen=True)
class Limits:
    """Limits of a server; a request beyond them is refused in words.

    Attributes:
        rows: of a request.
        bytes: of the body of a request.
        seconds: from the first byte of a request to its answer.
        queue: requests that wait for their turn; further ones are refused (503) until there is
            room.
        batch_rows: that are predicted together, from as many requests as there are waiting. One
            request may have more.

    Examples:
        >>> Limits(seconds=-1)
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `seconds` must be a positive number of at most 86,400, but got -1.
    """

    rows: int = 1000
    bytes: int = 4_000_000
    seconds: float = 10.0
    queue: int = 256
    batch_rows: int = 256

    def __post_init__(self) -> None:
        for name in ("rows", "bytes", "queue", "batch_rows"):
            require_count(name, getattr(self, name))
        require_seconds("seconds", self.seconds)


def require_seconds(name: str, value: object) -> None:
    """Refuse a time limit that is none.

    Args:
        name: the argument.
        value: the limit.

    Raises:
        BadInput: it is no positive number, or longer than a day.
    """
    rule = f"a positive number of at most {MOST_SECONDS:,}"
    good = is_finite(value) and 0 < value <= MOST_SECONDS  # type: ignore[operator]
    require(good, name, rule, value)
