"""Refuses bad input, with one exception and one form of message."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from difflib import get_close_matches


class BadInput(ValueError):
    """An argument was refused. The message names the argument, the rule and the value."""


class Phrase(str):
    """A description of what was given, for messages: shown without quotation marks.

    Examples:
        >>> require(False, "data", "non-empty", Phrase("0 examples"))
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `data` must be non-empty, but got 0 examples.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def is_whole(value: object) -> bool:
    """Whether a value is an integer of any kind; True and False are none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether a value is a real number of any kind; True and False are none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def require(condition: bool, name: str, rule: str, value: object) -> None:
    """Refuse an argument unless its rule holds.

    Args:
        condition: whether the rule holds.
        name: the argument, as the caller knows it.
        rule: what it must be, to follow the words "must be".
        value: what was given instead; a `Phrase` to describe it by words.

    Raises:
        BadInput: if `condition` is false.

    Examples:
        >>> require(-0.1 > 0, "step_size", "positive", -0.1)
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `step_size` must be positive, but got -0.1.
    """
    if not condition:
        raise BadInput(f"`{name}` must be {rule}, but got {value!r}.")


def nearest(name: str, choices: Iterable[str]) -> str:
    """Suggest the choice that a mistyped name most resembles.

    Args:
        name: what was typed.
        choices: what could have been meant.

    Returns:
        A sentence with a space before it, to end an error message with; empty if nothing is near.

    Examples:
        >>> nearest("s-hcm", ["map", "s-hmc", "s-smc"])
        " Did you mean 's-hmc'?"
        >>> nearest("elephant", ["map", "s-hmc", "s-smc"])
        ''
    """
    # Compared in lower case, since "S-HMC" for "s-hmc" is the commonest mistake.
    by_key = {choice.lower(): choice for choice in choices}
    matches = get_close_matches(str(name).lower(), by_key, n=1)
    return f" Did you mean {by_key[matches[0]]!r}?" if matches else ""
