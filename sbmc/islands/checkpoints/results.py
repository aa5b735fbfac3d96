"""Saves finished islands as files, with particles, weights and report."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import fields, replace
from typing import Any

from sbmc.checks import Phrase, require
from sbmc.islands.checkpoints.codec import Damaged, pack, same, unpack
from sbmc.islands.checkpoints.store import ARGUMENT, Store
from sbmc.islands.island import Island, IslandReport
from sbmc.log import logger

# Islands with another outcome, such as `failed` and `non-finite`, may succeed when they are run
# again: on a machine with more memory, or after a repair.
FINAL = ("completed", "stuck", "step-limit")
_EFFORT: dict[str, Any] = {"attempts": 1, "seconds": 0.0}
_NAME = re.compile(r"island-(\d+)\.safetensors")


def is_final(report: IslandReport) -> bool:
    """Whether an island with this outcome is never run again.

    Examples:
        >>> [is_final(IslandReport(0, outcome)) for outcome in ("completed", "stuck", "failed")]
        [True, True, False]
    """
    return report.outcome in FINAL


def island_name(index: int) -> str:
    """The name of an island's file.

    Examples:
        >>> island_name(3)
        'island-00003.safetensors'
    """
    return f"island-{index:05d}.safetensors"


def encode_island(island: Island) -> bytes:
    """Encode an island as bytes."""
    held = {"positions": island.positions, "weights": island.weights}
    tensors = {name: tensor for name, tensor in held.items() if tensor is not None}
    return pack(tensors, {"kind": "island", "report": island.report.as_dict()})


def decode_island(data: bytes) -> Island:
    """Decode what `encode_island` encoded, with the tensors on the CPU.

    Raises:
        Damaged: the bytes are not what was written.
        BadInput: a later version of sbmc, whose reports have more fields, wrote it.
    """
    tensors, metadata = unpack(data)
    if metadata.get("kind") != "island":
        raise Damaged("it is not an island")
    report = metadata["report"]
    fields_known = {field.name for field in fields(IslandReport)}
    unknown = ", ".join(sorted(set(report) - fields_known))
    rule = "written by this version of sbmc or an earlier one"
    require(not unknown, ARGUMENT, rule, Phrase(f"an island whose report has also {unknown}"))
    return Island(IslandReport(**report), tensors.get("positions"), tensors.get("weights"))


def write_island(store: Store, island: Island) -> None:
    """Write an island's file, unless it exists with the same or with a final result.

    A final result is never replaced by that of another attempt.

    Raises:
        CheckpointError: it could not be written.
    """
    index = island.report.index
    saved = store.read(island_name(index))
    if saved is not None:
        before = _read(store, index, saved)
        if before is not None and _alike(before, island):
            return
        if before is not None and is_final(before.report):
            ends = before.report.outcome, island.report.outcome
            message = (
                "island %d had ended (%s), and another attempt differs (%s): %s is not replaced"
            )
            logger.warning(message, index, *ends, store.where(island_name(index)))
            return
    store.write(island_name(index), encode_island(island))


def read_islands(
    store: Store,
    *,
    skip: Collection[int] = (),
    keep: Callable[[Island], Island] | None = None,
) -> dict[int, Island]:
    """Read all islands that have a file, by number. A damaged file is reported and skipped.

    Args:
        store: the checkpoint's folder.
        skip: the numbers of islands that are not read.
        keep: what becomes of each island that was read, before the next is; see `ParticlesOnDisk`.

    Raises:
        BadInput: a later version wrote one of them.
        CheckpointError: a file exists and cannot be read.
    """
    islands = {}
    for name in store.names("island-"):
        match = _NAME.fullmatch(name)
        if match is None or int(match[1]) in skip:
            continue
        data = store.read(name)
        island = None if data is None else _read(store, int(match[1]), data)
        if island is not None:
            islands[int(match[1])] = island if keep is None else keep(island)
    return islands


def _alike(one: Island, other: Island) -> bool:
    """Whether two attempts gave the same bits, whatever time they took."""
    plain = [replace(each, report=replace(each.report, **_EFFORT)) for each in (one, other)]
    return same(encode_island(plain[0]), encode_island(plain[1]))


def _read(store: Store, index: int, data: bytes) -> Island | None:
    try:
        island = decode_island(data)
        if island.report.index != index:
            raise Damaged(f"it holds island {island.report.index}")
    except Damaged as error:
        where = store.where(island_name(index))
        logger.warning("%s is damaged (%s): the island will be run again", where, error)
        return None
    return island
