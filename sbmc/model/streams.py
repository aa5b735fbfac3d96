"""Training data that are read in passes and never held: data sets and loaders of any size.

Before anything is sampled, one pass is read: it counts the rows, refuses numbers that are not
finite, and keeps a few rows that stand for all where a model is tried and measured. They are those
with the smallest digests, whatever the order of the rows is. The sum of all rows' digests
identifies the data in the same way.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapreplace
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, default_collate

from sbmc.checks import BadInput, Phrase, require
from sbmc.model.data import (
    TWO_READS,
    Examples,
    Inputs,
    check_inputs,
    count,
    leaves,
    rows,
    split_batch,
    tree_map,
)
from sbmc.model.loaders import STEADY
from sbmc.model.reading import READ_BATCH, read_loader
from sbmc.storage.digests import DIGITS, digest

# Rows that stand for all, and the most bytes that they may take together.
KEPT_ROWS, KEPT_BYTES = 1_024, 2**26
_MODULUS = 2**64

Batch = tuple[Inputs, Tensor]


class Source(Protocol):
    """Reads all rows, in batches, once for each pass."""

    # Whether the rows come in the order that is asked for.
    ordered: bool

    def read_pass(
        self, order: Iterable[Tensor] | None, generator: torch.Generator
    ) -> Iterator[Any]:
        """The batches of one pass.

        Args:
            order: the examples of each batch; the source's own batches if None, or if it is not
                `ordered`.
            generator: of what is random in it.
        """


class MapSource:
    """A map-style data set, read by the workers of a loader.

    Args:
        dataset: the data set.
        indices: of the rows that are data.
        collate: puts items together.
        name: what error messages call it.
        settings: further settings of a `DataLoader`, such as `num_workers`.
    """

    ordered = True

    def __init__(
        self,
        dataset: Any,
        indices: Sequence[Any],
        collate: Callable[[list[Any]], Any] = default_collate,
        name: str = "data",
        settings: dict[str, Any] | None = None,
    ) -> None:
        self._dataset, self._indices, self._collate = dataset, indices, collate
        self._name, self._settings = name, settings or {}

    def __len__(self) -> int:
        return len(self._indices)

    def read_pass(
        self, order: Iterable[Tensor] | None, generator: torch.Generator
    ) -> Iterator[Any]:
        """The items in an order, or in that of the data set."""
        if order is None:
            order = torch.arange(len(self)).split(READ_BATCH)
        loader = DataLoader(
            self._dataset,
            batch_sampler=_Named(self._indices, order),
            collate_fn=self._collate,
            generator=generator,
            **self._settings,
        )
        return read_loader(loader, self._name)


class _Named:
    """The batches of an order, as indices of a data set."""

    def __init__(self, indices: Sequence[Any], order: Iterable[Tensor]) -> None:
        self._indices, self._order = indices, order

    def __iter__(self) -> Iterator[list[Any]]:
        for batch in self._order:
            yield [self._indices[i] for i in batch.flatten().tolist()]


class LoaderSource:
    """A loader over an iterable data set, whose order is its own.

    Args:
        loader: makes batches.
        name: what error messages call it.
    """

    ordered = False

    def __init__(self, loader: DataLoader[Any], name: str = "data") -> None:
        self._loader, self._name = loader, name

    def read_pass(
        self, order: Iterable[Tensor] | None, generator: torch.Generator
    ) -> Iterator[Any]:
        """The loader's batches; its workers have their randomness from the generator."""
        self._loader.generator = generator
        return read_loader(self._loader, self._name)


class _Survey(NamedTuple):
    """What a pass over all rows has found."""

    rows: int
    total: int  # the sum of the rows' digests
    few: Examples


@dataclass
class Stream:
    """Rows that are read in passes.

    Args:
        source: reads them.
        rows: how many there are.
        total: the sum of their digests.
        augmented: whether rows may differ from pass to pass.
        name: what error messages call them.
    """

    source: Source
    rows: int
    total: int
    augmented: bool = False
    name: str = "data"
    _verified: bool = field(default=False, repr=False)

    def read_pass(self, order: Iterable[Tensor], size: int, seed: int) -> Iterator[Batch]:
        """The mini-batches of one pass, checked.

        Args:
            order: the examples of each batch, for a source that can be asked for them.
            size: examples per batch, for one that has an order of its own.
            seed: of what is random in the pass: augmentation, and the order of such a source.

        Raises:
            BadInput: there are other rows than in the first pass, without consent.
        """
        batches = _read(self.source, order, seed, self.name)
        seen, total = 0, 0
        for batch in batches if self.source.ordered else _regrouped(batches, size):
            if not self._verified and not self.augmented:
                total += sum(_row_digests(*batch))
            seen += len(batch[1])
            yield batch
        rule = f"data of {self.rows} rows in each pass, as in the first"
        require(seen == self.rows, self.name, rule, seen)
        if not self._verified and not self.augmented:
            require(total % _MODULUS == self.total, self.name, STEADY, Phrase(TWO_READS))
            self._verified = True

    def identity(self, few: Examples) -> str:
        """A digest of all rows; of their number and shapes if they are augmented."""
        shapes = [(tuple(t.shape[1:]), str(t.dtype)) for t in (*leaves(few.inputs), few.targets)]
        known: list[Any] = [self.rows, shapes]
        if not self.augmented:
            known.append(self.total)
        return digest(known)[:DIGITS]


@dataclass(frozen=True)
class Streamed(Examples):
    """A few examples that stand for a stream of them.

    Args:
        inputs: of the few.
        targets: of the few.
        stream: reads all of them.
        kind: the dtype of floating-point numbers as they are given; as they are read if None.
        device: where they are given.
    """

    stream: Stream = None  # type: ignore[assignment]
    kind: torch.dtype | None = None
    device: torch.device | str = "cpu"

    @property
    def rows(self) -> int:
        """How many examples the likelihood is of: all of the stream."""
        return self.stream.rows

    def identity(self) -> str:
        """A digest of all rows."""
        return self.stream.identity(self)

    def to(self, *, dtype: torch.dtype, device: torch.device | str = "cpu") -> Streamed:
        """The same in another dtype, on another device, as are the batches that are read."""
        few = Examples(self.inputs, self.targets).to(dtype=dtype, device=device)
        return replace(self, inputs=few.inputs, targets=few.targets, kind=dtype, device=device)

    def with_targets(self, targets: Tensor) -> Streamed:
        """The same with checked targets of the few."""
        return replace(self, targets=targets)

    def read_pass(self, order: Iterable[Tensor], size: int, seed: int) -> Iterator[Examples]:
        """The mini-batches of one pass; see `Stream.read_pass`."""
        for inputs, targets in self.stream.read_pass(order, size, seed):
            batch = Examples(inputs, targets)
            yield batch if self.kind is None else batch.to(dtype=self.kind, device=self.device)


def open_stream(source: Source, *, augmented: bool = False, name: str = "data") -> Streamed:
    """Read all rows once, and keep a few.

    Args:
        source: reads the rows.
        augmented: whether they may differ from pass to pass.
        name: what error messages call them.

    Raises:
        BadInput: there are none, some are not finite, or they are not of one shape.
    """
    survey = _survey(_read(source, None, 0, name))
    require(survey.rows > 0, name, "non-empty", Phrase("0 examples"))
    stream = Stream(source, survey.rows, survey.total, augmented, name)
    return Streamed(survey.few.inputs, survey.few.targets, stream)


def _survey(batches: Iterator[Batch]) -> _Survey:
    total, seen, most = 0, 0, KEPT_ROWS
    # Of the rows with the smallest digests the largest comes first.
    kept: list[tuple[int, int, Batch]] = []
    for inputs, targets in batches:
        if seen == 0:
            size = sum(t[:1].nbytes for t in (*leaves(inputs), targets))
            most = max(2, min(KEPT_ROWS, KEPT_BYTES // max(1, size)))
        for i, value in enumerate(_row_digests(inputs, targets)):
            total += value
            entry = -value, -(seen + i), _row(inputs, targets, i)
            if len(kept) < most:
                kept.append(entry)
                if len(kept) == most:
                    kept.sort(key=lambda each: each[:2])
            elif entry[:2] > kept[0][:2]:
                heapreplace(kept, entry)
        seen += len(targets)
    kept.sort(key=lambda each: each[:2], reverse=True)
    if not kept:
        return _Survey(0, 0, Examples(torch.zeros(0), torch.zeros(0)))
    few = [batch for _, _, batch in kept]
    return _Survey(seen, total % _MODULUS, Examples(*_joined(few)))


def _row(inputs: Inputs, targets: Tensor, index: int) -> Batch:
    """A copy of one row, so that the others are not held."""
    return tree_map(lambda t: t[index : index + 1].clone(), inputs), targets[
        index : index + 1
    ].clone()


def _row_digests(inputs: Inputs, targets: Tensor) -> Iterator[int]:
    """A number of 64 bits for each row."""
    parts = [t.contiguous().reshape(len(t), -1) for t in (*leaves(inputs), targets)]
    columns = [part.view(torch.uint8).numpy() for part in parts]
    for row in zip(*columns, strict=True):
        state = hashlib.blake2b(digest_size=8)
        for part in row:
            state.update(part)
        yield int.from_bytes(state.digest(), "little")


def _read(source: Source, order: Iterable[Tensor] | None, seed: int, name: str) -> Iterator[Batch]:
    """The checked batches of a pass, whose randomness leaves the caller's as it was."""
    generator = torch.Generator().manual_seed(seed)
    with_seed = _Randomness(seed)
    with with_seed:
        batches = source.read_pass(order, generator)
    form: Any = None
    while True:
        with with_seed:
            batch = next(batches, None)
        if batch is None:
            return
        inputs, targets = split_batch(batch, name)
        check_inputs(inputs, f"{name} inputs")
        good = len(targets) == count(inputs)
        require(good, f"{name} targets", "as many as the inputs", len(targets))
        check_inputs(targets, f"{name} targets")
        found = [(tuple(t.shape[1:]), t.dtype) for t in (*leaves(inputs), targets)]
        form = form or found
        if found != form:
            raise BadInput(
                f"`{name}` must be of one shape in all batches, but got batches of others."
            )
        yield inputs, targets


class _Randomness:
    """The global random numbers of a pass, which the code around it neither sees nor changes."""

    def __init__(self, seed: int) -> None:
        before = self._states()
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        self._inside = self._states()
        self._set(before)

    def __enter__(self) -> None:
        self._outside = self._states()
        self._set(self._inside)

    def __exit__(self, *_: object) -> None:
        self._inside = self._states()
        self._set(self._outside)

    def _states(self) -> tuple[Any, ...]:
        return torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002

    def _set(self, states: tuple[Any, ...]) -> None:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])  # noqa: NPY002


def _joined(parts: Sequence[Batch]) -> Batch:
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(leaves(inputs) for inputs, _ in parts), strict=True)
    joined = iter([torch.cat(column) for column in columns])
    inputs = tree_map(lambda _: next(joined), parts[0][0])
    return inputs, torch.cat([targets for _, targets in parts])


def _regrouped(batches: Iterator[Batch], size: int) -> Iterator[Batch]:
    """The same rows in batches of another size; the last may be short."""
    waiting: list[Batch] = []
    held = 0
    for batch in batches:
        waiting.append(batch)
        held += len(batch[1])
        if held < size:
            continue
        inputs, targets = _joined(waiting)
        last = held - held % size
        for start in range(0, last, size):
            yield rows(inputs, start, start + size), targets[start : start + size]
        waiting = [(rows(inputs, last, held), targets[last:])] if last < held else []
        held -= last
    if waiting:
        yield _joined(waiting)
