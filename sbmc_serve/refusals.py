"""Requests that are not answered: a status, and why in words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from sbmc.checks import BadInput, describe_value, nearest

MALFORMED, NOT_FOUND, WRONG_METHOD = 400, 404, 405
TOO_SLOW, TOO_LARGE, NOT_JSON = 408, 413, 415
MISDIRECTED, BREAKS_A_RULE = 421, 422
FAILED, BUSY, TOO_LATE = 500, 503, 504

# Longer names are not compared with those that could have been meant.
LONGEST_NAME = 100
_CONSTANTS = {None: "null", True: "true", False: "false"}
# The form of the messages of `sbmc.checks`.
_FORM = re.compile(
    r"`(?P<argument>[^`]*)` must be (?P<rule>.*?), but got (?P<value>.*?)\.(?: (?P<remedy>.*))?",
    re.DOTALL,
)


class Refused(Exception):
    """A request that is not answered.

    Args:
        status: of HTTP.
        argument: the part of the request that is at fault.
        rule: what it must be, to follow the words "must be".
        value: what was there instead, described in words.
        remedy: what to do, as a sentence.
        headers: of the answer, besides the usual ones.

    Examples:
        >>> print(Refused(422, "level", "between 0 and 1", "7", "Give 0.9."))
        `level` must be between 0 and 1, but got 7. Give 0.9.
    """

    def __init__(
        self,
        status: int,
        argument: str,
        rule: str,
        value: str,
        remedy: str,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(f"`{argument}` must be {rule}, but got {value}. {remedy}".rstrip())
        self.status = status
        self.argument, self.rule, self.value, self.remedy = argument, rule, value, remedy
        self.headers = headers or {}

    def body(self) -> bytes:
        """The answer, as JSON."""
        parts = {
            "argument": self.argument,
            "rule": self.rule,
            "value": self.value,
            "remedy": self.remedy,
        }
        # Text of a request may have halves of characters, which UTF-8 cannot write: so ASCII.
        return json.dumps({"error": parts, "message": str(self)}).encode("ascii")


def breaks(argument: str, rule: str, value: object, remedy: str) -> Refused:
    """A request that is JSON, and breaks a rule; `value` is described in words, and cut.

    Examples:
        >>> breaks("level", "a number", "high", "Give 0.9.").value
        "'high'"
        >>> breaks("level", "a number", None, "Give 0.9.").value
        'null'
    """
    # Who asks writes JSON, and need not know Python's names.
    shown = _CONSTANTS[value] if value is None or value is True or value is False else None
    return Refused(BREAKS_A_RULE, argument, rule, shown or describe_value(value), remedy)


def hint(name: object, choices: Iterable[str]) -> str:
    """The choice that a name most resembles, as a sentence; nothing for long names and no text.

    Examples:
        >>> hint("input", ["inputs", "level"]), hint("x" * 10_000_000, ["inputs"])
        (" Did you mean 'inputs'?", '')
    """
    # Comparing takes time, which a request must not be able to make long.
    short = isinstance(name, str) and len(name) <= LONGEST_NAME
    return nearest(str(name), choices) if short else ""


def from_bad_input(error: BadInput, remedy: str) -> Refused:
    """A refusal by the library, in parts.

    Args:
        error: its message has the form of `sbmc.checks`.
        remedy: if the message has none.

    Examples:
        >>> from_bad_input(BadInput("`level` must be in (0, 1), but got 7."), "Give 0.9.").rule
        'in (0, 1)'
    """
    parts = _FORM.fullmatch(str(error))
    if parts is None:
        return Refused(BREAKS_A_RULE, "inputs", "what the posterior takes", str(error), remedy)
    found = parts.groupdict()
    return Refused(
        BREAKS_A_RULE,
        found["argument"],
        found["rule"],
        found["value"],
        found["remedy"] or remedy,
    )
