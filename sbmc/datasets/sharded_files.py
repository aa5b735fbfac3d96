"""Folders of files that each hold some rows: `.npz` archives of numpy, or Parquet tables."""

from __future__ import annotations

import copy
import math
import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from sbmc.checks import BadInput, Phrase, is_number, require, require_flag, require_path
from sbmc.storage.arrays import as_tensor
from sbmc.storage.optional import load_parquet

KINDS = (".npz", ".parquet")
# Rows that are handed on together.
BLOCK_ROWS = 4_096


class ShardedFiles(IterableDataset[Any]):
    """The rows of a folder's files, read one file after another and never held together.

    Every pass goes through the files in another order, and through the rows of each in another
    order, unless `shuffle` is off. Rows that are read together come from one file, so that files
    should be mixed when they are written: a file of one class makes mini-batches of one class. With
    the workers of a `DataLoader(shards, batch_size=None, num_workers=...)` each reads files of its
    own.

    Args:
        folder: with files `*.npz` or `*.parquet`, of one kind, whose arrays or columns are alike.
            An archive is held in memory while it is read; a table is read in parts. Columns are
            found by their names, in the order of the first file.
        inputs: the name of the array of inputs in the archives, or names of several, which make a
            tuple; for tables the columns that make the inputs, all but the targets by default.
        targets: the name of the array or column of targets; None for inputs alone, to predict for.
        dtype: of the inputs, unless they are integers, which keep theirs without a `scale`.
        scale: what all inputs are multiplied by after their conversion to `dtype`, such as 1/255
            for pixels; 1 converts integers alone.
        shuffle: whether the order is another one each time.

    Raises:
        BadInput: there is no such folder, it has no files or files of both kinds, a file cannot be
            read, an array or column is missing, or a file is not like the first one.
        ImportError: Parquet files need pyarrow, which is not installed.

    Examples:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for i in range(3):
        ...     np.savez(folder / f"{i}.npz", inputs=np.ones((4, 2)), targets=np.arange(4))
        >>> len(ShardedFiles(folder))
        12
    """

    makes_batches = True

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        inputs: str | Sequence[str] | None = None,
        targets: str | None = "targets",
        dtype: torch.dtype = torch.float32,
        scale: float | None = None,
        shuffle: bool = True,
    ) -> None:
        path = require_path("folder", folder)
        require(path.is_dir(), "folder", "a folder that exists", str(folder))
        good = isinstance(dtype, torch.dtype) and dtype.is_floating_point
        require(good, "dtype", "a floating-point torch.dtype", dtype)
        good = scale is None or (is_number(scale) and math.isfinite(scale))
        require(good, "scale", "a finite number", scale)
        require_flag("shuffle", shuffle)
        several = isinstance(inputs, Sequence) and all(isinstance(each, str) for each in inputs)
        rule = "the name of an array or column, or a list of them"
        require(inputs is None or (several and len(inputs) > 0), "inputs", rule, inputs)
        rule = "the name of an array or column, or None"
        require(targets is None or isinstance(targets, str), "targets", rule, targets)
        self.files = sorted(each for each in path.iterdir() if each.suffix in KINDS)
        kinds = {each.suffix for each in self.files}
        rule = "a folder with files *.npz or *.parquet, of one kind"
        shown = Phrase(" and ".join(sorted(kinds)) if kinds else f"none in {str(folder)!r}")
        require(len(kinds) == 1, "folder", rule, shown)
        self.inputs, self.targets, self.dtype, self.shuffle = inputs, targets, dtype, shuffle
        self.scale = scale
        self._tables = kinds == {".parquet"}
        layouts = {file: self._layout(file) for file in self.files}
        # A file without rows may have arrays of any shape.
        self.files = [file for file in self.files if layouts[file].rows > 0]
        require(bool(self.files), "folder", "a folder with rows", Phrase("files without any"))
        self._rows = sum(layouts[file].rows for file in self.files)
        first = self.files[0]
        self._names = layouts[first].names
        for file in self.files[1:]:
            alike = layouts[file].parts == layouts[first].parts
            rule = f"files like {first.name!r}, with {_in_words(layouts[first])}"
            shown = Phrase(f"{file.name!r} with {_in_words(layouts[file])}")
            require(alike, "folder", rule, shown)

    def __len__(self) -> int:
        """The number of rows in all files."""
        return self._rows

    def in_order(self) -> ShardedFiles:
        """The same rows in the order of the files' names."""
        ordered = copy.copy(self)
        ordered.shuffle = False
        return ordered

    def load(self) -> Any:
        """All rows in memory, in order: `(inputs, targets)`, or the inputs without targets."""
        blocks = list(self.in_order())
        if self.targets is None:
            return _together(blocks)
        return _together([block[0] for block in blocks]), torch.cat([block[1] for block in blocks])

    def __iter__(self) -> Iterator[Any]:
        """Blocks of rows, `(inputs, targets)` or inputs."""
        files, worker = self.files, get_worker_info()
        if self.shuffle:
            generator = None
            if worker is not None:
                # All workers have one order, of which each takes a part; their seeds differ by
                # their numbers.
                generator = torch.Generator().manual_seed(worker.seed - worker.id)
            files = [files[i] for i in torch.randperm(len(files), generator=generator)]
        if worker is not None:
            files = files[worker.id :: worker.num_workers]
        for file in files:
            for inputs, targets in self._blocks(file):
                rows = len(inputs[0]) if isinstance(inputs, tuple) else len(inputs)
                order = torch.randperm(rows) if self.shuffle else torch.arange(rows)
                for index in order.split(BLOCK_ROWS):
                    taken = _taken(inputs, index)
                    yield taken if targets is None else (taken, targets[index])

    def _blocks(self, file: Path) -> Iterator[tuple[Any, Tensor | None]]:
        if self._tables:
            yield from self._table_blocks(file)
            return
        with _errors_name(file, "numpy"), np.load(file, allow_pickle=False) as archive:
            arrays = [archive[name] for name in self._names]
        targets = None
        if self.targets is not None:
            targets = as_tensor(arrays.pop(), f"targets of {file.name}")
        parts = tuple(self._converted(array, file) for array in arrays)
        alone = self.inputs is None or isinstance(self.inputs, str)
        yield parts[0] if alone else parts, targets

    def _table_blocks(self, file: Path) -> Iterator[tuple[Tensor, Tensor | None]]:
        table = _open_table(file)
        for batch in table.iter_batches(batch_size=BLOCK_ROWS, columns=self._names):
            arrays = [batch.column(each).to_numpy(zero_copy_only=False) for each in self._names]
            targets = None
            if self.targets is not None:
                targets = as_tensor(arrays.pop(), f"targets of {file.name}")
            numbers = all(each.dtype.kind in "biuf" for each in arrays)
            rule = f"files with columns of numbers, as {file.name!r} is not"
            require(numbers, "folder", rule, Phrase("columns of something else"))
            yield self._converted(np.stack(arrays, 1), file), targets

    def _layout(self, file: Path) -> _Layout:
        """What a file has, by its header alone."""
        if self._tables:
            table = _open_table(file)
            present = table.schema_arrow.names
            names = self._needed([name for name in present if name != self.targets])
            _require_names(names, present, file)
            # Columns are found by their names, so that their order in a file says nothing.
            return _Layout(int(table.metadata.num_rows), names, tuple(sorted(names)))
        names = self._needed(["inputs"])
        with _errors_name(file, "numpy"), zipfile.ZipFile(file) as archive:
            present = [each.removesuffix(".npy") for each in archive.namelist()]
            _require_names(names, present, file)
            headers = [_header(archive, name) for name in names]
        has_rows = all(shape for shape, _ in headers)
        rule = f"files whose arrays have rows, as {file.name!r} has not"
        require(has_rows, "folder", rule, Phrase("an array of a single number"))
        lengths = {shape[0] for shape, _ in headers}
        rule = f"files whose arrays are of one length, as {file.name!r} is not"
        require(len(lengths) == 1, "folder", rule, sorted(lengths))
        parts = []
        for name, (shape, dtype) in zip(names, headers, strict=True):
            converted = name != self.targets and (dtype.kind == "f" or self.scale is not None)
            kind = "numbers" if converted else dtype.newbyteorder("=").name
            parts.append(
                f"{name!r} of {kind} and shape (rows{''.join(f', {n}' for n in shape[1:])})"
            )
        return _Layout(lengths.pop(), names, tuple(parts))

    def _needed(self, default: list[str]) -> list[str]:
        """The arrays or columns that are read: of inputs, and then of targets."""
        if self.inputs is None:
            inputs = default
        else:
            inputs = [self.inputs] if isinstance(self.inputs, str) else list(self.inputs)
        return inputs if self.targets is None else [*inputs, self.targets]

    def _converted(self, array: np.ndarray, file: Path) -> Tensor:
        tensor = as_tensor(array, f"inputs of {file.name}")
        if self.scale is not None:
            return tensor.to(self.dtype) * self.scale
        return tensor.to(self.dtype) if tensor.is_floating_point() else tensor


class _Layout(NamedTuple):
    """What a file has.

    Attributes:
        rows: how many.
        names: of the arrays or columns that are read, the targets last.
        parts: what has to be the same in all files.
    """

    rows: int
    names: list[str]
    parts: tuple[str, ...]


def _in_words(layout: _Layout) -> str:
    return ", ".join(layout.parts)


def _open_table(file: Path) -> Any:
    parquet = load_parquet()
    with _errors_name(file, "pyarrow"):
        return parquet.ParquetFile(file)


@contextmanager
def _errors_name(file: Path, reader: str) -> Iterator[None]:
    """Let errors of reading a file name the file."""
    try:
        yield
    except BadInput:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise BadInput(
            f"`folder` must have files that {reader} can read, but got {file.name!r}. The error "
            "is above."
        ) from error


def _header(archive: zipfile.ZipFile, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and the dtype of an array in an archive."""
    with archive.open(f"{name}.npy") as member:
        version = np.lib.format.read_magic(member)
        old = version[0] == 1
        formats = np.lib.format
        read = formats.read_array_header_1_0 if old else formats.read_array_header_2_0
        shape, _, dtype = read(member)
    return shape, dtype


def _require_names(needed: Sequence[str], names: Sequence[str], file: Path) -> None:
    missing = [name for name in needed if name not in names]
    rule = f"files with {', '.join(map(repr, needed))}, which {file.name!r} has not all"
    require(not missing, "folder", rule, list(names))


def _taken(inputs: Any, index: Tensor) -> Any:
    if isinstance(inputs, tuple):
        return tuple(part[index] for part in inputs)
    return inputs[index]


def _together(blocks: Sequence[Any]) -> Any:
    if isinstance(blocks[0], tuple):
        return tuple(torch.cat(column) for column in zip(*blocks, strict=True))
    return torch.cat(list(blocks))
