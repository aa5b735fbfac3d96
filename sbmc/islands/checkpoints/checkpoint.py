"""A run's folder: opened for one run alone, shared by its workers, grown by more islands."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sbmc.checks import BadInput, Phrase, require
from sbmc.islands.checkpoints.checkpointer import FileCheckpointer
from sbmc.islands.checkpoints.manifest import NAME, Manifest, differences
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
from sbmc.islands.work import Batch

# (numbers of islands) -> those that run together
Plan = Callable[[Sequence[int]], list[Batch]]
_MOST_NAMED = 5


@dataclass(frozen=True)
class CheckpointFiles:
    """What a worker needs of a checkpoint; it can be sent to other processes.

    Attributes:
        store: the folder.
        every: seconds between two writes of a batch's state.
    """

    store: Store
    every: float

    def checkpointer(
        self, batch: Sequence[int], stop: Callable[[], bool] | None = None
    ) -> FileCheckpointer:
        """The checkpointer of a batch's state, which holds what an earlier attempt has written.

        Args:
            batch: the numbers of its islands. A fold and its first island run alone have two files.
            stop: asked at every snapshot whether the run is to stop; see `FileCheckpointer`.
        """
        return FileCheckpointer(self.store, batch_name(batch), self.every, stop=stop)

    def keep(self, islands: Sequence[Island]) -> None:
        """Write the results of a batch; what had ended for good before is left as it is.

        Raises:
            CheckpointError: they could not be written.
        """
        for island in islands:
            write_island(self.store, island)


class Checkpoint:
    """A folder that belongs to one run: made by `Checkpoint.open`.

    Attributes:
        store: the folder.
        path: where it is.
        every: seconds between two writes of a batch's state.
        batches: the islands that run together, as they were planned at first.
        threads: threads of one batch, as they were at first.
        identity: whatever decides the bits of an island.
    """

    def __init__(self, store: Store, every: float, manifest: Manifest) -> None:
        self.store = store
        self.path = store.where()
        self.every = every
        self.batches = manifest.batches
        self.threads = manifest.threads
        self.identity = manifest.identity
        self._final: dict[int, Island] = {}

    @classmethod
    def open(
        cls,
        location: CheckpointAt,
        identity: dict[str, Any],
        islands: Sequence[int],
        plan: Plan,
        threads: int,
        needed_bytes: int = 0,
    ) -> Checkpoint:
        """Make a checkpoint, or go on with one of the same run.

        Args:
            location: a folder or URL, and how often a batch's state is written.
            identity: whatever decides the bits of an island, as plain values; not how many islands
                there are, since a run can be extended.
            islands: numbers of the islands of this run.
            plan: puts islands into batches. A checkpoint that exists has its batches already, and
                only further islands are planned.
            threads: threads of one batch, unless the checkpoint knows them.
            needed_bytes: space that all islands may take. What has ended is not written again, so
                only the share of the others has to be there.

        Raises:
            BadInput: of another run; of more islands than this one; of another version; damaged;
                no checkpoint at all; or it cannot be written to.
        """
        store = open_store(location.path)
        data = store.read(NAME)
        if data is None:
            others = store.names()
            rule = f"an empty folder, or one with a {NAME}"
            given = Phrase(f"{store.where()!r} with {', '.join(others[:_MOST_NAMED])}")
            require(not others, ARGUMENT, rule, given)
            old = None
            manifest = Manifest(identity, _planned(plan, islands), threads)
        else:
            old = Manifest.from_json(data, store.where())
            _require_same(store.where(), old.identity, identity)
            manifest = _extended(store.where(), old, islands, plan)
        checkpoint = cls(store, location.every, manifest)
        left = {index for batch in checkpoint.open_batches() for index in batch}
        if manifest is old and not left:
            # Nothing is to be written: a disk that is full, or can only be read, will do.
            return checkpoint
        staying = {NAME, *map(island_name, checkpoint.finished().keys() - left)}
        store.probe(math.ceil(needed_bytes * len(left) / len(manifest.islands)), staying)
        store.sweep()
        if manifest is not old:
            store.write(NAME, manifest.to_json())
        if old is not None:
            checkpoint._tidy()
        return checkpoint

    def finished(self) -> dict[int, Island]:
        """The islands of this run that have ended for good, by number, with tensors on the CPU."""
        new = read_islands(self.store, skip=self._final.keys())
        self._final |= {i: island for i, island in new.items() if is_final(island.report)}
        own = {index for batch in self.batches for index in batch}
        return {index: self._final[index] for index in sorted(own & self._final.keys())}

    def open_batches(self) -> list[Batch]:
        """The batches that have to be run, each as a whole: some island of them has not ended."""
        done = self.finished().keys()
        return [batch for batch in self.batches if not done >= set(batch)]

    def checkpoint_files(self) -> CheckpointFiles:
        """What the workers get."""
        return CheckpointFiles(self.store, self.every)

    def _tidy(self) -> None:
        """Remove the states of batches that have ended: the run was killed before it could."""
        done = self.finished().keys()
        wanted = {batch_name(batch) for batch in self.open_batches()}
        wanted |= {batch_name([i]) for batch in self.batches for i in batch if i not in done}
        for name in self.store.names("batch-"):
            if name not in wanted:
                self.store.remove(name)


def kept_manifest(location: CheckpointAt) -> Manifest | None:
    """What a checkpoint was begun with, if there is one; nothing is written."""
    store = open_store(location.path)
    data = store.read(NAME)
    return None if data is None else Manifest.from_json(data, store.where())


def batch_name(batch: Sequence[int]) -> str:
    """The file of a batch's state.

    Example:
        >>> batch_name([0, 1, 7]), batch_name([0])
        ('batch-00000-00007.safetensors', 'batch-00000.safetensors')
    """
    ends = [batch[0]] if len(batch) == 1 else [batch[0], batch[-1]]
    return f"batch-{'-'.join(f'{index:05d}' for index in ends)}.safetensors"


def copy_islands(
    source: Checkpoint | str | os.PathLike[str], target: Checkpoint | str | os.PathLike[str]
) -> list[int]:
    """Copy the islands that have ended for good from one checkpoint to another of the same run.

    Args:
        source: where they are.
        target: a checkpoint too, opened before for all islands. What it has already stays.

    Returns:
        The numbers of those that were copied.

    Raises:
        BadInput: one of them is no checkpoint, or they are of different runs.
        CheckpointError: they could not be written.
    """
    stores = [_store_of(source), _store_of(target)]
    old, new = [_manifest_of(store) for store in stores]
    _require_same(stores[0].where(), old.identity, new.identity)
    has = {i for i, island in read_islands(stores[1]).items() if is_final(island.report)}
    wanted, copied = set(new.islands), []
    for index, island in read_islands(stores[0], skip=has).items():
        if is_final(island.report) and index in wanted:
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
    found = differences(old, new)
    more = len(found) - _MOST_NAMED
    words = "; ".join([*found[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else [])])
    require(not found, ARGUMENT, "of the same run", Phrase(f"{where!r}, where {words}"))


def _extended(where: str, old: Manifest, islands: Sequence[int], plan: Plan) -> Manifest:
    """The manifest with batches for the islands that it does not have."""
    missing = sorted(set(old.islands) - set(islands))
    named = ", ".join(map(str, missing[:_MOST_NAMED])) + (", …" if missing[_MOST_NAMED:] else "")
    rule = f"at least those of the checkpoint {where!r}, which has {len(old.islands)}"
    given = Phrase(f"{len(islands)} of them, without {named}")
    require(not missing, "islands", rule, given)
    new = sorted(set(islands) - set(old.islands))
    if not new:
        return old
    return replace(old, batches=[*old.batches, *_planned(plan, new)])


def _planned(plan: Plan, islands: Sequence[int]) -> list[Batch]:
    batches = [tuple(int(index) for index in batch) for batch in plan(islands)]
    got = sorted(index for batch in batches for index in batch)
    require(got == sorted(islands), "plan", "one that gives each island to one batch", batches)
    return batches
