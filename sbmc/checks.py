"""Refuses bad input, with one exception and one form of message."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Iterable
from pathlib import Path

# More than anyone counts up to: a larger number is a mistake, and a loop over it has no end.
MOST_COUNT = 1_000_000_000
# Longest description of a value in a message.
_MOST_CHARACTERS = 120
# Of a mistyped name: what is longer resembles nothing. And a part of a name that says which.
_LONGEST_NAME, _SHORTEST_PART = 100, 4


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
    """Whether a value is a real number of any kind that a float holds; True and False are none."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def is_finite(value: object) -> bool:
    """Whether a value is a real number, neither NaN nor infinite."""
    return is_number(value) and math.isfinite(value)  # type: ignore[arg-type]


def describe_value(value: object) -> str:
    """Describe a value in a message: in one line, short, without addresses in memory.

    Examples:
        >>> describe_value(0.5), describe_value("a"), describe_value(10**60)
        ('0.5', "'a'", 'an integer of 61 digits')
    """
    if isinstance(value, numbers.Integral) and abs(int(value)) >= 10**40:
        # Python refuses to write integers of more than a few thousand digits.
        return f"an integer of {math.floor(math.log10(abs(int(value)))) + 1:,} digits"
    kind = type(value)
    if hasattr(value, "shape") and hasattr(value, "dtype") and getattr(value, "shape", None):
        return f"a {kind.__name__} of shape {tuple(value.shape)} and dtype {value.dtype}"
    if hasattr(value, "named_parameters") and not isinstance(value, type):
        return f"a module of type {kind.__name__}"
    try:
        text = repr(value)
    except Exception:  # a value may be unable to describe itself
        return f"a value of type {kind.__name__}"
    text = " ".join(text.split())
    if " at 0x" in text:
        name = getattr(value, "__name__", None)
        return f"{name} ({kind.__name__})" if name else f"a value of type {kind.__name__}"
    if len(text) > _MOST_CHARACTERS:
        return f"{text[: _MOST_CHARACTERS // 2]} ... ({kind.__name__})"
    return text


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
        shown = str(value) if isinstance(value, Phrase) else describe_value(value)
        raise BadInput(f"`{name}` must be {rule}, but got {shown}.")


def require_count(name: str, value: object, least: int = 1, *, optional: bool = False) -> None:
    """Refuse a count that is no integer, too small, or larger than anyone can mean.

    Args:
        name: the argument.
        value: the count.
        least: the smallest that is allowed.
        optional: whether None is allowed.

    Raises:
        BadInput: it breaks the rule.

    Examples:
        >>> require_count("islands", 10**30)
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `islands` must be at most 1,000,000,000, but got 1e+30.
    """
    if optional and value is None:
        return
    words = {0: "a non-negative integer", 1: "a positive integer"}
    rule = words.get(least, f"an integer of at least {least}") + " or None" * optional
    if not is_whole(value):
        require(False, name, rule, value)
    assert isinstance(value, numbers.Integral)  # for the type checker
    count = int(value)
    require(count >= least, name, rule, value)
    shown = Phrase(f"{count:g}") if count < 10**300 else count
    require(count <= MOST_COUNT, name, f"at most {MOST_COUNT:,}", shown)


def require_flag(name: str, value: object, *, optional: bool = False) -> None:
    """Refuse what is neither True nor False; a text such as "False" would count as True.

    Args:
        name: the argument.
        value: the flag.
        optional: whether None is allowed.

    Raises:
        BadInput: it is something else.

    Examples:
        >>> require_flag("adapt", "False")
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `adapt` must be True or False, but got 'False'.
    """
    good = isinstance(value, bool) or (optional and value is None)
    require(good, name, "True, False or None" if optional else "True or False", value)


def require_choice(
    name: str, value: object, choices: Iterable[str], rule: str | None = None
) -> None:
    """Refuse what is none of the texts that can be chosen, and suggest the nearest one.

    Args:
        name: the argument.
        value: what was chosen.
        choices: what can be chosen.
        rule: what it must be; "one of" the choices if left out.

    Raises:
        BadInput: it is something else.

    Examples:
        >>> require_choice("path", "fusd", ["fused", "loop"])
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `path` must be one of fused, loop, but got 'fusd'. Did you mean \
'fused'?
    """
    known = list(choices)
    if not (isinstance(value, str) and value in known):
        hint = nearest(value, known) if isinstance(value, str) else ""
        rule = rule or f"one of {', '.join(known)}"
        raise BadInput(f"`{name}` must be {rule}, but got {describe_value(value)}.{hint}")


def require_function(name: str, value: object, arguments: str) -> None:
    """Refuse what is no function.

    Args:
        name: the argument.
        value: the function.
        arguments: what it is called with, in words.

    Raises:
        BadInput: it cannot be called.
    """
    require(callable(value), name, f"a function of {arguments}", value)


def require_path(name: str, value: object) -> Path:
    """The path that an argument is.

    Args:
        name: the argument.
        value: a text or a path.

    Returns:
        The path.

    Raises:
        BadInput: it is neither, it is empty, or no file can have this name.

    Examples:
        >>> require_path("path", 5)
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `path` must be the path of a file or folder, as text, but got 5.
    """
    rule = "the path of a file or folder, as text"
    good = isinstance(value, str | os.PathLike) and isinstance(os.fspath(value), str)
    require(good, name, rule, value)
    text = os.fspath(value)  # type: ignore[call-overload]
    usable = bool(text) and "\0" not in text
    usable = usable and all(len(part.encode(errors="replace")) <= 255 for part in Path(text).parts)
    require(usable, name, f"{rule}, that the system can have", text)
    return Path(text)


def nearest(name: str, choices: Iterable[str]) -> str:
    """Suggest the choice that a mistyped name most resembles.

    A choice is near if two fifths of the longer word, or less, have to be typed otherwise (letters
    put in, left out, changed or swapped), or if it is the name with more behind or before it.

    Args:
        name: what was typed.
        choices: what could have been meant.

    Returns:
        A sentence with a space before it, to end an error message with; empty if nothing is near.

    Examples:
        >>> nearest("s-hcm", ["map", "s-hmc", "s-smc"])
        " Did you mean 's-hmc'?"
        >>> nearest("scale", ["sampler", "particles"])
        ''
    """
    # Compared in lower case, since "S-HMC" for "s-hmc" is the commonest mistake.
    typed = str(name).lower()[:_LONGEST_NAME]
    best, least = "", math.inf
    for choice in choices:
        known = choice.lower()
        distance = float(edit_distance(typed, known))
        if distance > 0.4 * max(len(typed), len(known)):
            # Or its beginning, or its end.
            ends = known.startswith(typed) or known.endswith(typed)
            if len(typed) < _SHORTEST_PART or not ends:
                continue
        if distance < least:
            best, least = choice, distance
    return f" Did you mean {best!r}?" if best else ""


def edit_distance(first: str, second: str) -> int:
    """How many letters have to be put in, left out, changed or swapped with their neighbours.

    Examples:
        >>> edit_distance("s-hcm", "s-hmc"), edit_distance("sistematic", "systematic")
        (1, 1)
    """
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        before, last, row = row, before, [i]
        for j, other in enumerate(second, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
