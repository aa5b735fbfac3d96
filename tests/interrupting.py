"""A checkpointer that stops a run where it is told to, and what compares a resumed run by its bits.

At every offer the whole stack goes through JSON and copies of its tensors, as through a file: a
run that goes on gets nothing that a file would not give back.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from torch import Tensor

from sbmc.samplers.snapshot import NO_CHECKPOINTS, Checkpointer, Snapshot

Make = Callable[[], Snapshot]
# Part -> its values as JSON and its tensors; the outermost loop first.
File = dict[str, tuple[str, dict[str, Tensor]]]


class Interrupted(Exception):
    """The run was stopped on purpose."""


class Interrupting(Checkpointer):
    """Keeps every snapshot, and stops the run at one.

    Args:
        file: what an earlier one has kept.
        stop: raise `Interrupted` at this offer, counted from 1; None for never.

    Attributes:
        file: the snapshots as of the last offer.
        offers: what was kept at each offer.
    """

    def __init__(self, file: File | None = None, stop: int | None = None) -> None:
        self.file = file or {}
        self.stop = stop
        self.offers: list[File] = []
        self._found = _read(self.file)
        self._stack: dict[str, Make] = {
            part: (lambda snapshot=snapshot: snapshot)
            for part, snapshot in _read(self.file).items()
        }

    def has(self, part: str) -> bool:
        return part in self._found

    def restore(self, part: str) -> Snapshot | None:
        return self._found.pop(part, None)

    def offer_snapshot(self, part: str, make: Make) -> None:
        self.discard(part)
        self._stack[part] = make
        self.file = _write({name: each() for name, each in self._stack.items()})
        self.offers.append(self.file)
        if len(self.offers) == self.stop:
            raise Interrupted

    def discard(self, part: str) -> None:
        if part in self._stack:
            names = list(self._stack)
            for name in names[names.index(part) :]:
                del self._stack[name]
                self._found.pop(name, None)


def _write(snapshots: dict[str, Snapshot]) -> File:
    for snapshot in snapshots.values():
        for tensor in snapshot.tensors.values():
            assert isinstance(tensor, Tensor)
    return {
        part: (json.dumps(snapshot.values), {k: t.clone() for k, t in snapshot.tensors.items()})
        for part, snapshot in snapshots.items()
    }


def _read(file: File) -> dict[str, Snapshot]:
    return {
        part: Snapshot({k: t.clone() for k, t in tensors.items()}, json.loads(values))
        for part, (values, tensors) in file.items()
    }


class Told(NamedTuple):
    """What a run came to."""

    facts: Any  # all fields of its runs, to the bit
    evaluations: int


class Case(NamedTuple):
    """Islands that can be run again and again from their beginning."""

    target: Callable[[], Any]
    run: Callable[[Any, Checkpointer], Sequence[Any]]  # with noise and start of its own

    def through(self, checkpointer: Checkpointer = NO_CHECKPOINTS) -> Told:
        """Run to the end."""
        target = self.target()
        return Told(bits(self.run(target, checkpointer)), _spent(target))

    def offers(self) -> list[tuple[str, ...]]:
        """The parts on the stack at each offer."""
        checkpointer = Interrupting()
        self.through(checkpointer)
        return [tuple(file) for file in checkpointer.offers]

    def stopped(self, *stops: int, change: Callable[[File], None] | None = None) -> Told:
        """Run, stop at an offer, go on from what was kept, stop at another, and so on to the end.

        Args:
            stops: the offers, counted from 1 after each stop.
            change: may spoil what was kept before the run goes on for the last time.
        """
        file: File = {}
        spent = 0
        for stop in stops:
            checkpointer, target = Interrupting(file, stop), self.target()
            with pytest.raises(Interrupted):
                self.run(target, checkpointer)
            file, spent = checkpointer.file, spent + _spent(target)
        if change is not None:
            change(file)
        last = self.through(Interrupting(file))
        return Told(last.facts, spent + last.evaluations)


def bits(value: Any) -> Any:
    """Something that is equal only for equal bits, for NaN as well."""
    if isinstance(value, Tensor):
        return str(value.dtype), tuple(value.shape), value.detach().cpu().numpy().tobytes()
    if isinstance(value, dict):
        return {name: bits(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [bits(each) for each in value]
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: bits(getattr(value, name)) for name in names}
    return repr(value)


def _spent(target: Any) -> int:
    return target.evaluations.gradient + target.evaluations.forward
