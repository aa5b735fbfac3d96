"""Training data that are read in passes and never held: data sets and loaders of any size.

Before anything is sampled, one pass is read, which refuses numbers that are not finite; see
`sbmc.model.stream_survey` for what is kept of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, default_collate

from sbmc.checks import Phrase, require
from sbmc.model.data import (
    TWO_READS,
    Examples,
    check_inputs,
    count,
    join,
    leaves,
    split_batch,
)
from sbmc.model.loaders import STEADY
from sbmc.model.reading import READ_BATCH, read_loader
from sbmc.model.stream_survey import MODULUS, Batch, row_digests, survey_rows
from sbmc.storage.digests import DIGITS, digest


class Source(Protocol):
    """Reads all rows, in batches, once for each pass."""

    # Whether the rows come in the order that is asked for.
    ordered: bool

    def read_pass(
        self, order: Iterable[Tensor] | None, generator: torch.Generator
    ) -> Generator[Any, None, None]:
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
    ) -> Generator[Any, None, None]:
        """The items in an order, or in that of the data set."""
        if order is None:
            require(len(self) > 0, self._name, "non-empty", Phrase("0 examples"))
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
    ) -> Generator[Any, None, None]:
        """The loader's batches; its workers have their randomness from the generator."""
        return read_loader(self._loader, self._name, generator)


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
                total += sum(row_digests(*batch))
            seen += len(batch[1])
            yield batch
        rule = f"data of {self.rows} rows in each pass, as in the first"
        require(seen == self.rows, self.name, rule, seen)
        if not self._verified and not self.augmented:
            require(total % MODULUS == self.total, self.name, STEADY, Phrase(TWO_READS))
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


def open_stream(
    source: Source,
    *,
    augmented: bool = False,
    name: str = "data",
    report: Callable[[int], None] | None = None,
) -> Streamed:
    """Read all rows once, and keep a few.

    Args:
        source: reads the rows.
        augmented: whether they may differ from pass to pass.
        name: what error messages call them.
        report: is told after each batch how many rows were read.

    Raises:
        BadInput: there are none, some are not finite, or they are not of one shape.
    """
    survey = survey_rows(_read(source, None, 0, name), report)
    require(survey.rows > 0, name, "non-empty", Phrase("0 examples"))
    stream = Stream(source, survey.rows, survey.total, augmented, name)
    return Streamed(survey.few.inputs, survey.few.targets, stream)


def _read(source: Source, order: Iterable[Tensor] | None, seed: int, name: str) -> Iterator[Batch]:
    """The checked batches of a pass, whose randomness leaves the caller's as it was."""
    generator = torch.Generator().manual_seed(seed)
    with_seed = _Randomness(seed)
    with with_seed:
        batches = source.read_pass(order, generator)
    form: Any = None
    with closing(batches):
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
                shown = Phrase(f"{_form_in_words(found)} after {_form_in_words(form)}")
                require(False, name, "rows of one shape and dtype in all batches", shown)
            yield inputs, targets


def _form_in_words(form: Sequence[tuple[tuple[int, ...], torch.dtype]]) -> str:
    *inputs, targets = (
        f"{str(dtype).removeprefix('torch.')} of shape (rows{''.join(f', {n}' for n in shape)})"
        for shape, dtype in form
    )
    return f"inputs {' and '.join(inputs)} with targets {targets}"


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


def _regrouped(batches: Iterator[Batch], size: int) -> Iterator[Batch]:
    """The same rows in batches of another size; the last may be short."""
    waiting: list[Examples] = []
    held = 0
    for batch in batches:
        waiting.append(Examples(*batch))
        held += len(batch[1])
        if held < size:
            continue
        joined = join(waiting)
        last = held - held % size
        for start in range(0, last, size):
            yield joined.slice(start, start + size)
        waiting = [Examples(*joined.slice(last, held))] if last < held else []
        held -= last
    if waiting:
        yield join(waiting).slice(0, held)
