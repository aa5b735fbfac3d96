"""Tensors in files that are mapped into memory, for what does not fit into it.

Such a file has no name: the system frees its space when the last tensor that is in it is gone, or
the process has ended, however it ended. Pages that were read or written count as memory of the
process until `release_pages` hands them back to the system, which holds the file's contents anyway.
"""

from __future__ import annotations

import contextlib
import errno
import math
import mmap
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from weakref import WeakValueDictionary

import torch
from torch import Tensor

# Mappings by the address at which they begin, which is that of the storage of their tensors. One
# that is gone leaves the table, so that no other tensor is taken for it.
_MAPPINGS: WeakValueDictionary[int, mmap.mmap] = WeakValueDictionary()

# Errors that say that a disk has no room for a file.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def mapped_tensor(
    shape: Sequence[int], dtype: torch.dtype, folder: str | os.PathLike[str] | None = None
) -> Tensor:
    """A tensor of zeros in a file of its own, without a name.

    Its space is reserved at once where the system can do that: a disk that is full would otherwise
    end the process when the tensor is written to.

    Args:
        shape: of the tensor.
        dtype: of its numbers.
        folder: where the file is; by default the folder for temporary files (`TMPDIR`).

    Returns:
        The tensor. Its views stay in the file; copies of it are in memory.

    Raises:
        OSError: the disk has too little space, or the folder cannot be written to.

    Examples:
        >>> room = mapped_tensor((2, 3), torch.float32)
        >>> room[1] = 5.0
        >>> room.sum(), is_mapped(room[1]), is_mapped(room.clone())
        (tensor(15.), True, False)
    """
    count = math.prod(shape)
    if count == 0:  # there is no mapping of nothing
        return torch.empty(tuple(shape), dtype=dtype)
    size = count * dtype.itemsize
    with tempfile.TemporaryFile(dir=folder) as file:
        _reserve(file.fileno(), size, folder)
        mapping = mmap.mmap(file.fileno(), size)
    flat = torch.frombuffer(mapping, dtype=dtype, count=count)
    _MAPPINGS[flat.untyped_storage().data_ptr()] = mapping
    return flat.view(tuple(shape))


def room_beside(tensors: Iterable[Tensor], shape: Sequence[int]) -> Tensor:
    """An uninitialised tensor for what is put together from others.

    Args:
        tensors: of one dtype, on one device.
        shape: of the new tensor.

    Returns:
        A tensor in a mapped file if one of them is in such a file, otherwise one in memory.
    """
    parts = list(tensors)
    if any(map(is_mapped, parts)):
        return mapped_tensor(shape, parts[0].dtype)
    return parts[0].new_empty(tuple(shape))


def is_mapped(tensor: Tensor) -> bool:
    """Whether a tensor is in a file that `mapped_tensor` has made."""
    return _mapping(tensor) is not None


def release_pages(tensor: Tensor) -> None:
    """Hand back the memory that a mapped file takes in this process; nothing for other tensors.

    Args:
        tensor: in a mapped file, or a view of such a tensor. Its numbers are unchanged, and are
            read from the file when they are needed again.
    """
    mapping = _mapping(tensor)
    if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)


def free_bytes(folder: str | os.PathLike[str] | None = None) -> int:
    """Space on the disk of a folder, which need not exist yet; by default that of `TMPDIR`."""
    path = Path(tempfile.gettempdir() if folder is None else folder).absolute()
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def _mapping(tensor: Tensor) -> mmap.mmap | None:
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        return None
    return _MAPPINGS.get(tensor.untyped_storage().data_ptr())


def _reserve(handle: int, size: int, folder: str | os.PathLike[str] | None) -> None:
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(handle, 0, size)
            return
    except OSError as error:
        if error.errno in _NO_ROOM:
            place = tempfile.gettempdir() if folder is None else os.fspath(folder)
            free = "?"
            with contextlib.suppress(OSError):
                free = f"{free_bytes(folder):,}"
            raise OSError(
                error.errno,
                f"a file of {size:,} bytes does not fit on the disk of {place!r}, which has {free} "
                "free. Free some space, or set TMPDIR to a folder on a larger disk",
            ) from error
    os.truncate(handle, size)  # where space cannot be reserved
