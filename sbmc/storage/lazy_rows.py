"""Tensors whose rows are read when they are asked for, for data that are larger than memory.

The rows are in a memory-mapped file, or in an array of another dtype. A few of them are read,
converted and checked at a time; the rest takes no memory. To the code around it such a tensor is a
tensor: it has a shape and a dtype, and slices and selections of rows are ordinary tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import BadInput, Phrase, require
from sbmc.storage.mapped_arrays import ReleasedPages, from_location, location_of

# Rows of so many bytes may be read at once. A larger slice stays where it is.
MOST_AT_ONCE = 2**28
# A digest reads so many rows of a lazy tensor, spread evenly: all of them would take too long.
DIGEST_ROWS, DIGEST_BYTES = 4_096, 2**24

aten = torch.ops.aten
Index = slice | np.ndarray


class RowReader(Protocol):
    """Reads some rows of an array into memory."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole array."""

    @property
    def dtype(self) -> torch.dtype:
        """Of the rows as they are read."""

    def read(self, index: Index) -> Tensor:
        """The rows of a slice, or at some indices, as a tensor in memory of its own."""


class ArrayReader:
    """Rows of an array of numpy, in memory or in a mapped file.

    It can be sent to another process, where a mapped file is opened again.

    Args:
        array: with plain numbers.
    """

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        native = array.dtype.newbyteorder("=")
        self.dtype = torch.from_numpy(np.empty(0, dtype=native)).dtype
        self._native = native
        self._pages = ReleasedPages(array)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return self.array.shape

    def read(self, index: Index) -> Tensor:
        """The rows of a slice, or at some indices, as a tensor in memory of its own."""
        rows = np.asarray(self.array[index], dtype=self._native, order="C")
        scattered = not isinstance(index, slice)
        if np.may_share_memory(rows, self.array):
            # What a model writes into its inputs must reach neither the file nor read-only pages.
            rows = rows.copy()
        self._pages.count(len(rows), self.array[:1].nbytes, scattered=scattered)
        return torch.from_numpy(rows)

    def __reduce__(self) -> Any:
        location = location_of(self.array)
        if location is None:
            return ArrayReader, (np.array(self.array),)
        return _reader_at, location


def _reader_at(*location: Any) -> ArrayReader:
    return ArrayReader(from_location(*location))


class TensorReader:
    """Rows of a tensor in memory that is too large to be converted as a whole.

    Args:
        tensor: on the CPU.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype

    def read(self, index: Index) -> Tensor:
        """The rows of a slice, or at some indices, as a tensor in memory of its own."""
        where = index if isinstance(index, slice) else torch.from_numpy(index)
        return self.tensor[where].clone()


class LazyRows(Tensor):
    """A tensor whose rows are read, converted and checked when they are asked for.

    Slices along the first axis and selections of rows give ordinary tensors in memory, unless they
    have more than `MOST_AT_ONCE` bytes: then a slice is lazy again, and anything else is refused.

    Args:
        reader: reads the rows.
        name: what error messages call them.
        dtype: of the rows as they are given; as they are read if None.
        scale: what numbers are multiplied by, after their conversion.
        device: of the rows as they are given.
        rows: which of the reader's rows there are; all if None.

    Examples:
        >>> pixels = LazyRows(ArrayReader(np.full((4, 2), 255, np.uint8)), dtype=torch.float32)
        >>> pixels.shape, pixels.dtype, pixels[1:3].sum()
        (torch.Size([4, 2]), torch.float32, tensor(1020.))
    """

    reader: RowReader
    argument: str
    scale: float | None
    rows: range

    @staticmethod
    def __new__(
        cls,
        reader: RowReader,
        name: str = "inputs",
        dtype: torch.dtype | None = None,
        scale: float | None = None,
        device: torch.device | str = "cpu",
        rows: range | None = None,
    ) -> LazyRows:
        """A tensor without memory of its own."""
        rows = range(reader.shape[0]) if rows is None else rows
        shape = (len(rows), *reader.shape[1:])
        kind = reader.dtype if dtype is None else dtype
        made = Tensor._make_wrapper_subclass(cls, shape, dtype=kind, device=torch.device(device))
        made.reader, made.argument, made.scale, made.rows = reader, name, scale, rows
        return made

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        """Shape and dtype; no row is read."""
        return f"LazyRows(shape={tuple(self.shape)}, dtype={self.dtype})"

    def __deepcopy__(self, _: Any) -> LazyRows:
        return self  # it is never written to

    def __reduce_ex__(self, _: Any) -> Any:
        return _rebuilt, (self.reader, *self._settings())

    def _settings(self) -> tuple[Any, ...]:
        return self.argument, self.dtype, self.scale, str(self.device), self.rows

    def changed(
        self,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
        rows: range | None = None,
    ) -> LazyRows:
        """The same rows in another dtype, on another device, or some of them; none is read."""
        kind, where = dtype or self.dtype, device or self.device
        some = self.rows if rows is None else rows
        return LazyRows(self.reader, self.argument, kind, self.scale, where, some)

    def read(self, rows: range | Tensor) -> Tensor:
        """Some rows in memory, converted.

        Args:
            rows: a range, or indices `(rows,)`.

        Raises:
            BadInput: a number is not finite.
        """
        index: Index
        if isinstance(rows, range):
            chosen = self.rows[rows.start : rows.stop : rows.step]
            index = slice(chosen.start, chosen.stop, chosen.step)
        else:
            at = rows.detach().cpu().numpy()
            at = np.where(at < 0, at + len(self), at)
            index = self.rows.start + self.rows.step * at
        values = self.reader.read(index).to(self.dtype)
        if self.scale is not None:
            values = values.mul_(self.scale)
        self._require_finite(values)
        return values.to(self.device)

    def _require_finite(self, values: Tensor) -> None:
        if values.is_floating_point() and not bool(torch.isfinite(values.sum())):
            bad = int((~torch.isfinite(values)).sum())
            shown = f"{bad} that are NaN or infinite among {len(values)} rows that were read"
            require(bad == 0, self.argument, "finite numbers", Phrase(shown))

    def whole(self) -> Tensor:
        """All rows in memory.

        Raises:
            BadInput: they are more than may be read at once.
        """
        if self.nbytes > MOST_AT_ONCE:
            raise BadInput(
                f"`{self.argument}` must be used in parts, since they are read in place, but got a "
                f"use of all their {self.nbytes:,} bytes. Give an array in memory, "
                "np.array(...), or some of the rows."
            )
        return self.read(range(len(self)))

    def data_ptr(self) -> int:
        """Refused: compiled code, which asks for it, has to be given rows in memory."""
        raise BadInput(f"`{self.argument}` must be in memory here, but got rows in a file.")

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """All rows as an array in memory; see `whole`."""
        return self.whole().numpy(force=force)

    def tolist(self) -> Any:
        """All rows as lists; see `whole`."""
        return self.whole().tolist()

    def feed(self, state: Any) -> None:
        """Add some rows, spread evenly, to a digest of `hashlib`."""
        count = min(len(self), DIGEST_ROWS)
        index = torch.arange(count) * len(self) // max(1, count)
        together = max(1, DIGEST_BYTES // max(1, self[:1].nbytes))
        for piece in index.split(together):
            state.update(self.read(piece).cpu().contiguous().view(-1).view(torch.uint8).numpy())

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Operations of torch: rows are selected lazily, and anything else reads all of them."""
        first = args[0] if args and isinstance(args[0], LazyRows) else None
        if first is not None and function in _OPERATIONS:
            result = _OPERATIONS[function](first, *args[1:], **(kwargs or {}))
            if result is not NotImplemented:
                return result
        plain = torch.utils._pytree.tree_map_only(LazyRows, LazyRows.whole, (args, kwargs or {}))
        return function(*plain[0], **plain[1])


def _rebuilt(
    reader: RowReader,
    name: str,
    dtype: torch.dtype,
    scale: float | None,
    device: str,
    rows: range,
) -> LazyRows:
    return LazyRows(reader, name, dtype, scale, device, rows)


def _read_or_view(lazy: LazyRows, rows: range) -> Tensor:
    """Rows in memory if they are few; otherwise lazy again."""
    view = lazy.changed(rows=lazy.rows[rows.start : rows.stop : rows.step])
    return view if view.nbytes > MOST_AT_ONCE else lazy.read(rows)


def _slice(
    lazy: LazyRows,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Any:
    if dim != 0:
        return NotImplemented
    return _read_or_view(lazy, range(*slice(start, end, step).indices(len(lazy))))


def _split(lazy: LazyRows, size: int, dim: int = 0) -> Any:
    if dim != 0:
        return NotImplemented
    starts = range(0, len(lazy), size)
    return [_read_or_view(lazy, range(i, min(i + size, len(lazy)))) for i in starts]


def _select(lazy: LazyRows, dim: int, index: int) -> Any:
    if dim != 0:
        return NotImplemented
    place = index + len(lazy) if index < 0 else index
    return lazy.read(range(place, place + 1))[0]


def _index_select(lazy: LazyRows, dim: int, index: Tensor) -> Any:
    return lazy.read(index) if dim == 0 else NotImplemented


def _index(lazy: LazyRows, indices: Sequence[Tensor | None]) -> Any:
    index = indices[0]
    if len(indices) != 1 or index is None:
        return NotImplemented
    if index.dtype == torch.bool:
        index = index.nonzero()[:, 0]
    return lazy.read(index.reshape(-1)).unflatten(0, index.shape) if index.ndim else NotImplemented


def _to_copy(
    lazy: LazyRows,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    **_: Any,
) -> LazyRows:
    return lazy.changed(dtype=dtype, device=device)


_OPERATIONS: dict[Any, Callable[..., Any]] = {
    aten.slice.Tensor: _slice,
    aten.split.Tensor: _split,
    aten.select.int: _select,
    aten.index.Tensor: _index,
    aten.index_select.default: _index_select,
    aten._to_copy.default: _to_copy,
    aten.detach.default: lambda lazy: lazy,
    aten.alias.default: lambda lazy: lazy,
}
