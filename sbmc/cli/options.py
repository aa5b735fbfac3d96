"""Options that several commands have, and the reading of their text.

Options are text when the parser hands them over, so that a bad value is refused in the same form
of words as in Python.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from sbmc.checks import MOST_COUNT, BadInput, require

Text = str | None

DataDirOption = Annotated[
    Path | None, typer.Option(help="Where to look for data first; then $SBMC_DATA.")
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="No progress, only the results.")]


def with_option_groups(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take dataclasses of options: the parser sees an option for each field.

    Args:
        command: a function; a parameter whose annotation is a dataclass stands for all its fields,
            each annotated as a parameter of a command is.

    Returns:
        The command for the parser, which has those options and calls the function.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Size:
        ...     width: Text = None
        ...     height: Text = "1"
        >>> @with_option_groups
        ... def draw(name: str, *, size: Size):
        ...     return name, size
        >>> list(inspect.signature(draw).parameters)
        ['name', 'width', 'height']
        >>> draw(name="a", width="2", height="3")
        ('a', Size(width='2', height='3'))
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        annotation = hints[parameter.name]
        if not is_dataclass(annotation):
            parameters.append(_keyword(parameter.name, annotation, parameter.default))
            continue
        groups[parameter.name] = annotation
        kinds = get_type_hints(annotation, include_extras=True)
        options = fields(annotation)
        parameters += [_keyword(each.name, kinds[each.name], each.default) for each in options]

    @wraps(command)
    def flat(**values: Any) -> Any:
        for name, group in groups.items():
            values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
        return command(**values)

    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {each.name: each.annotation for each in parameters}
    return flat


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    # Keywords may have no default after others that have one.
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def given_options(options: Any) -> dict[str, Any]:
    """The options of a group that were given.

    Args:
        options: an instance of a dataclass whose fields are None unless they are given.

    Returns:
        Values by name.
    """
    values = {each.name: getattr(options, each.name) for each in fields(options)}
    return {name: value for name, value in values.items() if value is not None}


def read_count(name: str, text: Text, least: int = 1, most: int = MOST_COUNT) -> int:
    """Read a whole number.

    Args:
        name: the option, for the error message.
        text: what was given.
        least: the smallest number that is allowed.
        most: the largest one.

    Returns:
        The number.

    Raises:
        BadInput: the text is no whole number, or one outside the bounds.

    Examples:
        >>> read_count("folds", "5", least=2)
        5
        >>> read_count("folds", "1", least=2)
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `folds` must be a whole number of at least 2, but got '1'.
    """
    digits = (text or "").strip()
    # Longer numbers are beyond what anyone counts up to, and Python refuses to read them.
    good = digits.isdecimal() and len(digits) < 1000 and int(digits) >= least
    require(good, name, f"a whole number of at least {least}", text)
    require(int(digits) <= most, name, f"at most {most:,}", text)
    return int(digits)


def read_numbers(name: str, text: Text) -> tuple[float, ...] | None:
    """Read numbers with commas between them; fractions may be written as such.

    Args:
        name: the option, for the error message.
        text: what was given, or None.

    Returns:
        The numbers in the order given, or None.

    Raises:
        BadInput: a part of the text is no number.

    Examples:
        >>> read_numbers("v", "1/40, 0.1,1")
        (0.025, 0.1, 1.0)
    """
    if text is None:
        return None
    numbers = []
    for part in text.split(","):
        try:
            numbers.append(float(Fraction(part.replace(" ", ""))))
        except (ValueError, ZeroDivisionError, OverflowError):
            rule = "numbers with commas between them, such as 1/40,0.1,1"
            raise BadInput(f"`{name}` must be {rule}, but got {text!r}.") from None
    return tuple(numbers)


def read_number(name: str, text: Text) -> float:
    """Read one number, which may be written as a fraction.

    Raises:
        BadInput: the text is no number, or several.
    """
    numbers = read_numbers(name, text) or ()
    require(len(numbers) == 1, name, "one number", text)
    return numbers[0]
