"""Folders of files that each hold some rows: `.npz` archives of numpy, or Parquet tables."""

from __future__ import annotations

import copy
import os
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from sbmc.checks import BadInput, Phrase, require, require_flag, require_path
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
        folder: with files `*.npz` or `*.parquet`, of one kind. An archive is held in memory while
            it is read; a table is read in parts.
        inputs: the name of the array of inputs in the archives, or names of several, which make a
            tuple; for tables the columns that make the inputs, all but the targets by default.
        targets: the name of the array or column of targets; None for inputs alone, to predict for.
        dtype: of the inputs, unless they are integers, which keep theirs.
        shuffle: whether the order is another one each time.

    Raises:
        BadInput: there is no such folder, it has no files or files of both kinds, or an array or
            column is missing.
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
        shuffle: bool = True,
    ) -> None:
        path = require_path("folder", folder)
        require(path.is_dir(), "folder", "a folder that exists", str(folder))
        good = isinstance(dtype, torch.dtype) and dtype.is_floating_point
        require(good, "dtype", "a floating-point torch.dtype", dtype)
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
        self._tables = kinds == {".parquet"}
        counts = [self._count(each) for each in self.files]
        self._rows = sum(counts)
        require(self._rows > 0, "folder", "a folder with rows", Phrase("files without any"))

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
        with self._opened(file) as archive:
            names = [self.inputs] if isinstance(self.inputs, str) else self.inputs or ["inputs"]
            parts = tuple(self._converted(archive[name]) for name in names)
            alone = self.inputs is None or isinstance(self.inputs, str)
            targets = None if self.targets is None else torch.from_numpy(archive[self.targets])
        lengths = {len(each) for each in (*parts, *(() if targets is None else (targets,)))}
        rule = f"files whose arrays are of one length, as {file.name!r} is not"
        require(len(lengths) == 1, "folder", rule, sorted(lengths))
        yield parts[0] if alone else parts, targets

    def _table_blocks(self, file: Path) -> Iterator[tuple[Tensor, Tensor | None]]:
        table = load_parquet().ParquetFile(file)
        columns = self._columns(table.schema_arrow.names, file)
        read = columns if self.targets is None else [*columns, self.targets]
        for batch in table.iter_batches(batch_size=BLOCK_ROWS, columns=read):
            arrays = [batch.column(name).to_numpy(zero_copy_only=False) for name in columns]
            numbers = all(each.dtype.kind in "biuf" for each in arrays)
            rule = f"files with columns of numbers, as {file.name!r} is not"
            require(numbers, "folder", rule, Phrase("columns of something else"))
            inputs = self._converted(np.stack(arrays, 1))
            if self.targets is None:
                yield inputs, None
                continue
            labels = batch.column(self.targets).to_numpy(zero_copy_only=False)
            yield inputs, torch.from_numpy(np.array(labels))

    def _columns(self, names: Sequence[str], file: Path) -> list[str]:
        if self.inputs is None:
            wanted = [name for name in names if name != self.targets]
        else:
            wanted = [self.inputs] if isinstance(self.inputs, str) else list(self.inputs)
        needed = wanted if self.targets is None else [*wanted, self.targets]
        _require_names(needed, names, file)
        return wanted

    def _count(self, file: Path) -> int:
        if self._tables:
            table = load_parquet().ParquetFile(file)
            self._columns(table.schema_arrow.names, file)
            return int(table.metadata.num_rows)
        wanted = [self.inputs] if isinstance(self.inputs, str) else list(self.inputs or ["inputs"])
        needed = wanted if self.targets is None else [*wanted, self.targets]
        with self._opened(file) as archive:
            _require_names(needed, archive.files, file)
        return _rows_of(file, needed[-1])

    def _opened(self, file: Path) -> Any:
        try:
            return np.load(file, allow_pickle=False)
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise BadInput(
                f"`folder` must have files that numpy can read, but got {file.name!r}. The error "
                "is above."
            ) from error

    def _converted(self, array: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        return tensor.to(self.dtype) if tensor.is_floating_point() else tensor


def _rows_of(file: Path, name: str) -> int:
    """The length of an array in an archive, from its header alone."""
    with zipfile.ZipFile(file) as archive, archive.open(f"{name}.npy") as member:
        version = np.lib.format.read_magic(member)
        reader = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
        shape, _, _ = reader[version[0]](member)
    require(len(shape) > 0, "folder", f"files whose arrays have rows, as {file.name!r} has not", ())
    return int(shape[0])


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
