"""Arrays of numpy in mapped files: where they are, and their pages that have been read."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

# Pages that were read count as memory of the process until they are handed back to the system.
RELEASE_BYTES = 2**26
# A row that is read brings its neighbours along: the system maps so many bytes around it.
NEIGHBOURHOOD = 2**16


def mapped_root(array: np.ndarray) -> np.memmap | None:
    """The memory-mapped array that an array is, or is a view of; None if it is in memory."""
    found: np.memmap | None = None
    part: Any = array
    while isinstance(part, np.ndarray):
        if isinstance(part, np.memmap):
            found = part
        part = part.base
    return found


def location_of(array: np.ndarray) -> tuple[Any, ...] | None:
    """Where an array is in a file, to open it again; None if it is in none that has a name.

    Returns:
        The arguments of `from_location`.
    """
    root = mapped_root(array)
    if root is None or root.filename is None or root.mode not in ("r", "r+"):
        return None
    # A view has the offset of what it is a view of.
    address = array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    return str(root.filename), root.offset + address, array.dtype, array.shape, array.strides


def from_location(
    path: str, offset: int, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...]
) -> np.ndarray:
    """The array at a place in a file, mapped for reading.

    Args:
        path: of the file.
        offset: bytes before the array's first number.
        dtype: of the numbers.
        shape: of the array.
        strides: bytes from one number to the next, along each axis.
    """
    before = sum(min(0, stride * (size - 1)) for stride, size in zip(strides, shape, strict=True))
    root = np.memmap(path, dtype=np.uint8, mode="r")
    view = root[offset + before :]
    return np.ndarray(shape, dtype, view, -before, strides)


class ReleasedPages:
    """Hands back the pages of a mapped file after some of them have been read.

    Args:
        array: an array. Nothing is done for one in memory, or one whose changes are its own
            (`mode="c"`), which would be lost.
    """

    def __init__(self, array: np.ndarray) -> None:
        root = mapped_root(array)
        shared = root is not None and root.mode in ("r", "r+")
        self._mapping: mmap.mmap | None = getattr(root, "_mmap", None) if shared else None
        self._read = 0

    def count(self, rows: int, row_bytes: int, *, scattered: bool) -> None:
        """Note that so many rows have been read; now and then their pages are handed back."""
        if self._mapping is None or not hasattr(mmap, "MADV_DONTNEED"):
            return
        self._read += rows * (max(row_bytes, NEIGHBOURHOOD) if scattered else row_bytes)
        if self._read >= RELEASE_BYTES:
            self._read = 0
            self._mapping.madvise(mmap.MADV_DONTNEED)
