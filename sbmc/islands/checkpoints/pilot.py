"""Saves what a pilot run has learned, as a file of the checkpoint."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from sbmc.checks import BadInput, is_number
from sbmc.islands.checkpoints.manifest import json_digest
from sbmc.islands.checkpoints.store import ARGUMENT, Store
from sbmc.storage.files import parse_json

PILOT = "pilot.json"
_COSTS = ("epochs", "forward_epochs")


def write_pilot(store: Store, learned: Mapping[str, Any]) -> None:
    """Write what a pilot has learned, with a digest.

    Args:
        store: the checkpoint's folder.
        learned: what `Sampler.learn` returned.

    Raises:
        CheckpointError: it could not be written.
    """
    content = json.loads(json.dumps(dict(learned)))
    store.write(PILOT, json.dumps({**content, "digest": json_digest(content)}).encode())


def read_pilot(store: Store, check: Callable[[Mapping[str, Any]], None]) -> dict[str, Any] | None:
    """Read what `write_pilot` wrote, with lists for tuples; None if there is no file.

    Earlier versions wrote no digest. Such a file is read if its values pass `check`.

    Args:
        store: the checkpoint's folder.
        check: raises a ValueError for impossible values: `Sampler.check_learned`.

    Raises:
        BadInput: it is damaged.
    """
    data = store.read(PILOT)
    if data is None:
        return None
    try:
        learned = _verified(parse_json(data))
        check(learned)
    except ValueError as error:
        raise BadInput(
            f"`{ARGUMENT}` must be a folder with an undamaged {PILOT}, but got "
            f"{store.where(PILOT)!r} ({error}). Delete that file: the pilot is then run again, and "
            "finds the same."
        ) from None
    return learned


def _verified(content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ValueError(f"a {type(content).__name__} instead of an object")
    digest = content.pop("digest", None)
    if digest is not None and digest != json_digest(content):
        raise ValueError("its contents have changed since it was written")
    for name in _COSTS:
        cost: Any = content.get(name)
        if not (is_number(cost) and 0 <= cost < math.inf):
            raise ValueError(f"its {name} are not a number from 0")
    return content
