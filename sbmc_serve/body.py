"""The body of a request as plain values: strict JSON, and nothing that can be read in two ways."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from sbmc_serve.refusals import MALFORMED, NOT_JSON, Refused

JSON_TYPE = "application/json"


def require_json_type(content_type: str) -> None:
    """Refuse a body that does not say that it is JSON.

    A page of another site can make a browser send text and forms to a server on this machine, but
    not JSON; so this also keeps such pages out.

    Raises:
        Refused: it is something else.
    """
    kind, _, parameters = content_type.partition(";")
    charset = parameters.strip().lower().replace('"', "")
    good = kind.strip().lower() == JSON_TYPE and charset in ("", "charset=utf-8")
    if not good:
        raise Refused(
            NOT_JSON,
            "Content-Type",
            f"{JSON_TYPE}, in UTF-8",
            repr(content_type[:80]) if content_type else "none",
            f"Send the header Content-Type: {JSON_TYPE}.",
        )


def parse_body(body: bytes) -> Any:
    """Read JSON.

    Args:
        body: of the request.

    Returns:
        Plain values.

    Raises:
        Refused: it is not UTF-8 or no JSON, has NaN or Infinity, a name twice in one object,
            numbers of thousands of digits, or thousands of brackets inside each other.

    Examples:
        >>> parse_body(b'{"inputs": [[0.5]]}')
        {'inputs': [[0.5]]}
        >>> parse_body(b'{"inputs": [[NaN]]}')
        Traceback (most recent call last):
        ...
        sbmc_serve.refusals.Refused: `body` must be JSON, in which numbers are finite, but got \
NaN. Leave such rows out, or fill the values in.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _malformed(
            "JSON in UTF-8", f"other bytes, from byte {error.start} on", "Encode it as UTF-8."
        ) from None
    if not text.strip():
        raise _malformed("JSON", "nothing", 'Send an object such as {"inputs": [...]}.')
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except RecursionError:
        raise _malformed(
            "JSON of few levels",
            "brackets inside each other, too many to follow",
            "Send rows in the shape that /info shows.",
        ) from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _malformed(
            "JSON", f"text that is not JSON ({error.msg}, {where})", "Correct it at this place."
        ) from None
    except ValueError:  # Python reads no integers of more than 4,300 digits
        raise _malformed(
            "JSON, in which numbers can be held",
            "an integer of thousands of digits",
            "Send numbers as 64-bit floating point has them.",
        ) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise _malformed(
                "JSON, in which an object has each name once",
                f"{name[:80]!r} twice",
                "Leave one of them out.",
            )
        values[name] = value
    return values


def _refuse_constant(name: str) -> NoReturn:
    raise _malformed(
        "JSON, in which numbers are finite", name, "Leave such rows out, or fill the values in."
    )


def _malformed(rule: str, value: str, remedy: str) -> Refused:
    return Refused(MALFORMED, "body", rule, value, remedy)
