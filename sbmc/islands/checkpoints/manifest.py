"""The manifest: the description of the run that a checkpoint belongs to."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass, fields
from typing import Any

from sbmc.checks import Phrase, is_whole, require
from sbmc.islands.checkpoints.store import ARGUMENT
from sbmc.islands.job import Batch
from sbmc.storage.files import mismatch, parse_json
from sbmc.target.probe import is_probe, probe_differences

FORMAT = "sbmc-checkpoint"
VERSION = 1
NAME = "manifest.json"
# Where a run's description has the settings of its sampler.
SAMPLER = "sampler_settings."
# Which compiled code ran. It decides the last bits of an island and nothing else, so that islands
# from machines with other processors can be merged, but an island goes on with the same code.
CODE = "kernel_code"
_MISSING = Phrase("missing")
_CHECKSUM = re.compile(r"[0-9a-f]{16,}")
_MOST_LETTERS = 60


@dataclass(frozen=True)
class Manifest:
    """The contents of manifest.json.

    Attributes:
        identity: all that decides the bits of an island, as plain values.
        batches: the numbers of the islands that run together.
        threads: threads of one batch, which decide how sums are rounded.
    """

    identity: dict[str, Any]
    batches: list[Batch]
    threads: int

    @property
    def islands(self) -> list[int]:
        """The numbers of all islands, in order."""
        return sorted(index for batch in self.batches for index in batch)

    def to_json(self) -> bytes:
        """The file's bytes."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "identity": self.identity,
            "batches": self.batches,
            "threads": self.threads,
        }
        return json.dumps({**content, "digest": json_digest(content)}, indent=1).encode()

    @classmethod
    def from_json(cls, data: bytes, where: str) -> Manifest:
        """Read what `to_json` wrote.

        Args:
            data: the bytes.
            where: the checkpoint's path, for the message.

        Raises:
            BadInput: the bytes are damaged, are not a manifest, or are of another version.
        """
        try:
            content = parse_json(data)
        except ValueError:
            content = None
        good = isinstance(content, dict) and "format" in content
        require(good, ARGUMENT, f"a folder with an undamaged {NAME}", where)
        kind = content.get("format"), content.get("version")
        got = Phrase(f"{where!r} of {kind[0]} version {kind[1]}")
        rule = f"of format {FORMAT} version {VERSION}"
        require(kind == (FORMAT, VERSION), ARGUMENT, rule, got)
        intact = content.pop("digest", None) == json_digest(content)
        require(intact, ARGUMENT, f"a folder with an undamaged {NAME}", where)
        misplaced = mismatch(cls, {field.name: content.get(field.name) for field in fields(cls)})
        batches = content.get("batches")
        good = not misplaced and isinstance(batches, list) and all(map(_is_batch, batches))
        require(good, ARGUMENT, f"a folder with a {NAME} of this version of sbmc", where)
        return cls(content["identity"], [tuple(batch) for batch in batches], content["threads"])


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """List the differences between two descriptions of a run.

    Args:
        old: the description in the checkpoint ("there").
        new: the description of the present run ("here").

    Returns:
        One phrase for each difference, in the order of `old` and then of `new`. Nested values have
        dotted names. Only the beginning of a checksum is shown. A probe (see `sbmc.target.probe`)
        follows from all the rest, so that it is compared, up to rounding, only if there is no other
        difference and both descriptions have it. A setting of the sampler that is None in one
        description may be missing in the other: it did not exist yet, and None is as it was before.

    Examples:
        >>> differences({"s": 0.25, "sampler": {"steps": 20}}, {"s": 0.1, "sampler": {"steps": 10}})
        ['s is 0.25 there and 0.1 here', 'sampler.steps is 20 there and 10 here']
        >>> differences({"data": "0123456789abcdef"}, {"data": "fedcba9876543210"})
        ['data differ (checksum 01234567 there and fedcba98 here)']
        >>> older = {"sampler_settings": {"epochs": 9}}
        >>> differences(older, {"sampler_settings": {"epochs": 9, "noise": None}})
        []
    """
    saved, current = _flat(old), _flat(new)
    probes = [
        {name: each.pop(name) for name in [*each] if is_probe(each[name])}
        for each in (saved, current)
    ]
    differing = [
        _difference(name, saved.get(name, _MISSING), current.get(name, _MISSING))
        for name in dict.fromkeys([*saved, *current])
        if not _equal(saved.get(name, _MISSING), current.get(name, _MISSING))
        and not (name.startswith(SAMPLER) and saved.get(name) is current.get(name) is None)
    ]
    both = [name for name in probes[0] if name in probes[1]]
    return differing or [
        difference for n in both for difference in probe_differences(probes[0][n], probes[1][n])
    ]


def _is_batch(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(is_whole(index) for index in value)


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if is_probe(value):
        return {name: value}
    if isinstance(value, dict) and (value or not name):
        pairs = [(str(key), inner) for key, inner in value.items()]
    elif isinstance(value, (list, tuple)) and value:
        pairs = [(str(i), inner) for i, inner in enumerate(value)]
    else:
        # JSON has no tuples: an empty one must equal the list that it became.
        return {name: [] if isinstance(value, tuple) else value}
    flat: dict[str, Any] = {}
    for key, inner in pairs:
        flat |= _flat(inner, f"{name}.{key}" if name else key)
    return flat


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, bool) != isinstance(other, bool) or (one is _MISSING) != (other is _MISSING):
        return False
    both = isinstance(one, float) and isinstance(other, float)
    return one == other or (both and math.isnan(one) and math.isnan(other))


def _difference(name: str, saved: Any, current: Any) -> str:
    if all(isinstance(each, str) and _CHECKSUM.fullmatch(each) for each in (saved, current)):
        verb = "differ" if name.rpartition(".")[2] == "data" else "differs"
        return f"{name} {verb} (checksum {saved[:8]} there and {current[:8]} here)"
    return f"{name} is {_shown(saved)} there and {_shown(current)} here"


def _shown(value: Any) -> str:
    if isinstance(value, str) and not isinstance(value, Phrase) and _CHECKSUM.fullmatch(value):
        return f"checksum {value[:8]}"
    text = repr(value)
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…"


def json_digest(content: dict[str, Any]) -> str:
    """The digest of a JSON file's values, which shows whether they have changed."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
