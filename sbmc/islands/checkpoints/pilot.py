"""What a pilot of SMC has learned, as a file of the checkpoint."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from sbmc.checks import BadInput, is_number, is_whole
from sbmc.islands.checkpoints.manifest import json_digest
from sbmc.islands.checkpoints.store import ARGUMENT, Store
from sbmc.storage.files import parse_json

PILOT = "pilot.json"
_SERIES = ("temperatures", "step_sizes")
_COSTS = ("epochs", "forward_epochs")
_NAMES = {*_SERIES, *_COSTS, "mutations"}


def write_pilot(store: Store, found: Mapping[str, Any]) -> None:
    """Write what a pilot found, with a digest.

    Args:
        store: the checkpoint's folder.
        found: `temperatures`, `step_sizes`, `mutations`, `epochs` and `forward_epochs`.

    Raises:
        CheckpointError: it could not be written.
    """
    content = json.loads(json.dumps(dict(found)))
    store.write(PILOT, json.dumps({**content, "digest": json_digest(content)}).encode())


def read_pilot(store: Store) -> dict[str, Any] | None:
    """What `write_pilot` was given, with lists for tuples; None if there is no file.

    Versions before wrote no digest. Such a file is read if its values can be a pilot's.

    Raises:
        BadInput: it is damaged.
    """
    data = store.read(PILOT)
    if data is None:
        return None
    try:
        found = _checked(parse_json(data))
    except ValueError as error:
        raise BadInput(
            f"`{ARGUMENT}` must be a folder with an undamaged {PILOT}, but got "
            f"{store.where(PILOT)!r} ({error}). Delete that file: the pilot is then run again, and "
            "finds the same."
        ) from None
    return found


def _checked(content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ValueError(f"a {type(content).__name__} stands for an object")
    given = content.pop("digest", None)
    if given is not None and given != json_digest(content):
        raise ValueError("its contents have changed since it was written")
    if set(content) != _NAMES:
        odd = ", ".join(sorted(set(content) ^ _NAMES))
        raise ValueError(f"it has other values than a pilot's: {odd}")
    for name in _SERIES:
        good = isinstance(content[name], list) and all(map(_positive, content[name]))
        if not good or len(content[name]) != len(content["temperatures"]):
            raise ValueError(f"its {name} are not one positive number for each temperature")
    heats = content["temperatures"]
    if not heats or heats[-1] != 1 or any(a >= b for a, b in pairwise(heats)):
        raise ValueError("its temperatures do not rise to 1")
    moves = content["mutations"]
    each = moves if isinstance(moves, list) else [moves] * len(heats)
    if len(each) != len(heats) or not all(is_whole(m) and m >= 1 for m in each):
        raise ValueError("its mutations are not one positive integer for each temperature")
    for name in _COSTS:
        if not (is_number(content[name]) and 0 <= content[name] < math.inf):
            raise ValueError(f"its {name} are not a number from 0")
    return content


def _positive(value: Any) -> bool:
    return is_number(value) and 0 < value < math.inf
