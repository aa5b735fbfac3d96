"""The checkpoint of a run: a folder that workers write to, and that can be extended by islands."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sbmc.checks import BadInput, Phrase, require
from sbmc.islands.checkpoints.checkpointer import FileCheckpointer
from sbmc.islands.checkpoints.manifest import CODE, NAME, Manifest, differences
from sbmc.islands.checkpoints.options import CheckpointAt
from sbmc.islands.checkpoints.results import (
    encode_island,
    is_final,
    island_name,
    read_islands,
    write_island,
)
from sbmc.islands.checkpoints.store import ARGUMENT, Store, open_store
from sbmc.islands.island import Island
from sbmc.islands.job import Batch
from sbmc.model.kernels.native.shipped import how_to_have

# (numbers of islands) -> the batches in which they run
BatchPlanner = Callable[[Sequence[int]], list[Batch]]
# What becomes of an island that was read
Keep = Callable[[Island], Island]
_MOST_NAMED = 5


@dataclass(frozen=True)
class CheckpointFiles:
    """The part of a checkpoint that workers need; it can be sent to other processes.

    Attributes:
        store: the folder.
        every: seconds between two writes of a batch's state.
    """

    store: Store
    every: float

    def checkpointer(
        self, batch: Sequence[int], stop: Callable[[], bool] | None = None
    ) -> FileCheckpointer:
        """The checkpointer of a batch, with the snapshots that an earlier attempt has saved.

        Args:
            batch: the numbers of its islands. A batch and its first island alone have different
                files.
            stop: asked at every snapshot whether the run is to stop; see `FileCheckpointer`.
        """
        return FileCheckpointer(self.store, batch_name(batch), self.every, stop=stop)

    def save_islands(self, islands: Sequence[Island]) -> None:
        """Write the results of a batch, except of islands whose final result is there already.

        Raises:
            CheckpointError: they could not be written.
        """
        for island in islands:
            write_island(self.store, island)


class Checkpoint:
    """A folder that belongs to one run; `Checkpoint.open` makes it.

    Attributes:
        store: the folder.
        path: where it is.
        every: seconds between two writes of a batch's state.
        batches: the islands that run together, as they were planned when the run began.
        threads: threads of one batch, as they were when the run began.
        identity: all that decides the bits of an island.
    """

    def __init__(
        self, store: Store, every: float, manifest: Manifest, keep: Keep | None = None
    ) -> None:
        self.store = store
        self.path = store.where()
        self.every = every
        self.batches = manifest.batches
        self.threads = manifest.threads
        self.identity = manifest.identity
        self._keep = keep
        self._final: dict[int, Island] = {}

    @classmethod
    def open(
        cls,
        location: CheckpointAt,
        identity: dict[str, Any],
        islands: Sequence[int],
        planner: BatchPlanner,
        threads: int,
        needed_bytes: int = 0,
        keep: Keep | None = None,
    ) -> Checkpoint:
        """Make a checkpoint, or continue with that of the same run.

        Args:
            location: a folder or URL, and how often a batch's state is written.
            identity: all that decides the bits of an island, as plain values. The number of islands
                is not part of it, since a run can be extended.
            islands: numbers of the islands of this run.
            planner: puts islands into batches. A checkpoint that exists has its batches already, so
                that only further islands are planned.
            threads: threads of one batch, unless the checkpoint exists and has their number.
            needed_bytes: space that all islands may take. Islands that have ended are not written
                again, so that only the share of the others has to be free.
            keep: what becomes of an island that is read; it stays in memory if None.

        Raises:
            BadInput: the folder belongs to another run, has more islands than this one, was written
                by another version, is damaged, has other files in it, or cannot be written to.
        """
        store = open_store(location.path)
        data = store.read(NAME)
        if data is None:
            others = store.names()
            rule = f"an empty folder, or one with a {NAME}"
            contents = Phrase(f"{store.where()!r} with {', '.join(others[:_MOST_NAMED])}")
            require(not others, ARGUMENT, rule, contents)
            old = None
            manifest = Manifest(identity, _planned(planner, islands), threads)
        else:
            old = Manifest.from_json(data, store.where())
            _require_same(store.where(), old.identity, identity)
            manifest = _extended(store.where(), old, islands, planner)
        checkpoint = cls(store, location.every, manifest, keep)
        unfinished = {index for batch in checkpoint.open_batches() for index in batch}
        if manifest is old and not unfinished:
            # Nothing has to be written, so that a full or read-only disk is good enough.
            return checkpoint
        staying = {NAME, *map(island_name, checkpoint.finished().keys() - unfinished)}
        store.probe(math.ceil(needed_bytes * len(unfinished) / len(manifest.islands)), staying)
        store.sweep()
        if manifest is not old:
            store.write(NAME, manifest.to_json())
        if old is not None:
            checkpoint._tidy()
        return checkpoint

    def finished(self) -> dict[int, Island]:
        """The islands of this run that have a final result, by number, with tensors on the CPU."""
        new = read_islands(self.store, skip=self._final.keys(), keep=self._keep)
        self._final |= {i: island for i, island in new.items() if is_final(island.report)}
        numbers = {index for batch in self.batches for index in batch}
        return {index: self._final[index] for index in sorted(numbers & self._final.keys())}

    def open_batches(self) -> list[Batch]:
        """The batches that have to be run: at least one of their islands has not ended."""
        done = self.finished().keys()
        return [batch for batch in self.batches if not done >= set(batch)]

    def checkpoint_files(self) -> CheckpointFiles:
        """The part of the checkpoint that is sent to workers."""
        return CheckpointFiles(self.store, self.every)

    def _tidy(self) -> None:
        """Remove snapshots of batches that have ended, which a killed run could not remove."""
        done = self.finished().keys()
        wanted = {batch_name(batch) for batch in self.open_batches()}
        wanted |= {batch_name([i]) for batch in self.batches for i in batch if i not in done}
        for name in self.store.names("batch-"):
            if name not in wanted:
                self.store.remove(name)


def saved_manifest(location: CheckpointAt) -> Manifest | None:
    """The manifest of a checkpoint, if there is one; nothing is written."""
    store = open_store(location.path)
    data = store.read(NAME)
    return None if data is None else Manifest.from_json(data, store.where())


def batch_name(batch: Sequence[int]) -> str:
    """The name of the file with a batch's snapshots.

    Examples:
        >>> batch_name([0, 1, 7]), batch_name([0])
        ('batch-00000-00007.safetensors', 'batch-00000.safetensors')
    """
    ends = [batch[0]] if len(batch) == 1 else [batch[0], batch[-1]]
    return f"batch-{'-'.join(f'{index:05d}' for index in ends)}.safetensors"


def copy_islands(
    source: Checkpoint | str | os.PathLike[str], target: Checkpoint | str | os.PathLike[str]
) -> list[int]:
    """Copy the islands that have a final result from one checkpoint to another of the same run.

    Args:
        source: the checkpoint that has them.
        target: a checkpoint that was opened for all islands. Its own results are not replaced.

    Returns:
        The numbers of the islands that were copied.

    Raises:
        BadInput: one of them is not a checkpoint, or they belong to different runs.
        CheckpointError: they could not be written.
    """
    stores = [_store_of(source), _store_of(target)]
    old, new = [_manifest_of(store) for store in stores]
    # Islands that have ended may be of any compiled code.
    _require_same(stores[0].where(), *({**each.identity, CODE: None} for each in (old, new)))
    finished = {i for i, island in read_islands(stores[1]).items() if is_final(island.report)}
    expected, copied = set(new.islands), []
    for index, island in read_islands(stores[0], skip=finished).items():
        if is_final(island.report) and index in expected:
            stores[1].write(island_name(index), encode_island(island))
            copied.append(index)
    return copied


def _store_of(checkpoint: Checkpoint | str | os.PathLike[str]) -> Store:
    return checkpoint.store if isinstance(checkpoint, Checkpoint) else open_store(checkpoint)


def _manifest_of(store: Store) -> Manifest:
    data = store.read(NAME)
    if data is None:
        raise BadInput(f"`{ARGUMENT}` must be a folder with a {NAME}, but got {store.where()!r}.")
    return Manifest.from_json(data, store.where())


def _require_same(where: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    differing = differences(old, new)
    more = len(differing) - _MOST_NAMED
    summary = "; ".join([*differing[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else [])])
    if CODE in old and old[CODE] != new.get(CODE):
        summary += f" ({how_to_have(old[CODE])})"
    require(not differing, ARGUMENT, "of the same run", Phrase(f"{where!r}, where {summary}"))


def _extended(where: str, old: Manifest, islands: Sequence[int], planner: BatchPlanner) -> Manifest:
    """The manifest, with batches for further islands added to it."""
    missing = sorted(set(old.islands) - set(islands))
    named = ", ".join(map(str, missing[:_MOST_NAMED])) + (", …" if missing[_MOST_NAMED:] else "")
    rule = f"at least those of the checkpoint {where!r}, which has {len(old.islands)}"
    given = Phrase(f"{len(islands)} of them, without {named}")
    require(not missing, "islands", rule, given)
    new = sorted(set(islands) - set(old.islands))
    if not new:
        return old
    return replace(old, batches=[*old.batches, *_planned(planner, new)])


def _planned(planner: BatchPlanner, islands: Sequence[int]) -> list[Batch]:
    batches = [tuple(int(index) for index in batch) for batch in planner(islands)]
    assigned = sorted(index for batch in batches for index in batch)
    require(
        assigned == sorted(islands), "planner", "one that gives each island to one batch", batches
    )
    return batches
