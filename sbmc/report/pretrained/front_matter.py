"""Plain values as YAML, for the head of a model card; no package is needed to write it.

Texts are always in double quotes, in which YAML has an escape for every character, and keys are
too unless they are plain words. So no text can end a value, begin a comment or pass for a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sbmc.checks import is_number, is_whole, require

# Keys that mean nothing else in YAML; what would be a truth value or null is put in quotes.
_PLAIN_KEY = re.compile(r"(?!(?:y|n|yes|no|on|off|true|false|null)$)[A-Za-z][A-Za-z0-9_-]*", re.I)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
# Deeper than any metadata, and less than Python's limit.
_DEEPEST = 20


def front_matter(content: Mapping[str, Any]) -> str:
    """The head of a card: YAML between two lines of dashes.

    Args:
        content: plain values by name.

    Returns:
        The text, with a line break at its end.

    Examples:
        >>> print(front_matter({"license": "mit", "tags": ["no: it's fine"], "size": 2}), end="")
        ---
        license: "mit"
        tags:
        - "no: it's fine"
        size: 2
        ---
    """
    return "\n".join(["---", *_lines(content), "---", ""])


def require_plain(name: str, value: Any, depth: int = 0) -> None:
    """Refuse what YAML and JSON have no form for.

    Args:
        name: of the argument.
        value: texts, finite numbers, truth values and None, in lists and in mappings by text.
        depth: of the value in the argument.

    Raises:
        BadInput: it is something else, or nested too deeply.
    """
    rule = "plain values: text, finite numbers, True, False, None, lists and mappings by text"
    require(depth <= _DEEPEST, name, f"plain values, at most {_DEEPEST} deep in each other", value)
    if isinstance(value, Mapping):
        for key, inner in value.items():
            require(isinstance(key, str), name, rule, key)
            require_plain(name, key)
            require_plain(name, inner, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            require_plain(name, inner, depth + 1)
    elif isinstance(value, str):
        # Half of a pair of surrogates is no character, and no file can hold it.
        whole = not any("\ud800" <= letter <= "\udfff" for letter in value)
        require(whole, name, "text of whole characters", value)
    else:
        finite = is_number(value) and math.isfinite(value)
        require(finite or value is None or isinstance(value, bool), name, rule, value)


def _lines(content: Mapping[str, Any]) -> Iterator[str]:
    for key, value in content.items():
        name = key if _PLAIN_KEY.fullmatch(key) else _quoted(key)
        if isinstance(value, Mapping) and value:
            yield f"{name}:"
            yield from (f"  {line}" for line in _lines(value))
        elif isinstance(value, list | tuple) and value:
            yield f"{name}:"
            yield from _items(value)
        else:
            yield f"{name}: {_scalar(value)}"


def _items(values: list[Any] | tuple[Any, ...]) -> Iterator[str]:
    for value in values:
        if isinstance(value, Mapping) and value:
            first, *others = _lines(value)
        elif isinstance(value, list | tuple) and value:
            first, *others = _items(value)
        else:
            first, others = _scalar(value), []
        yield f"- {first}"
        yield from (f"  {line}" for line in others)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    if is_whole(value):
        return str(int(value))
    digits, exponent, power = repr(float(value)).partition("e")
    # YAML 1.1 takes 1e-05 for a text: its numbers have a point.
    return digits + ("" if "." in digits else ".0") + exponent + power


def _quoted(text: str) -> str:
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(letter: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if letter.isprintable():
        return letter
    code = ord(letter)
    return f"\\U{code:08X}" if code > 0xFFFF else f"\\u{code:04X}"
