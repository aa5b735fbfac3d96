"""Digests that identify data, weights and settings."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from sbmc.storage.lazy_rows import LazyRows
from sbmc.storage.mapped import release_pages

# Long enough to be unique in practice, and short enough to read.
DIGITS = 16
# Bytes that are read at a time.
PIECE = 2**24


def digest(*values: Any) -> str:
    """A digest of tensors, and of sequences and mappings of them, with shapes and dtypes.

    Examples:
        >>> digest(torch.zeros(2)) == digest(torch.zeros(2)), len(digest(torch.zeros(2, 1)))
        (True, 16)
    """
    state = hashlib.sha256()
    _feed(state, values)
    return state.hexdigest()[:DIGITS]


def _feed(state: Any, value: Any) -> None:
    if isinstance(value, Tensor):
        state.update(f"{tuple(value.shape)}{value.dtype}".encode())
        feed_tensor(state, value)
    elif isinstance(value, Mapping):
        for name in sorted(value):
            state.update(f"{name}:".encode())
            _feed(state, value[name])
    elif isinstance(value, Sequence) and not isinstance(value, str):
        state.update(f"[{len(value)}]".encode())
        for each in value:
            _feed(state, each)
    else:
        state.update(repr(value).encode())


def feed_tensor(state: Any, tensor: Tensor) -> None:
    """Add the bytes of a tensor, on whatever device it is, to a digest.

    Args:
        state: of `hashlib`.
        tensor: one in a mapped file is read piece by piece, and takes little memory. Of one whose
            rows are read lazily some are taken, spread evenly.
    """
    if isinstance(tensor, LazyRows):
        tensor.feed(state)
        return
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    data = flat.view(torch.uint8).numpy().data
    for start in range(0, len(data), PIECE):
        state.update(data[start : start + PIECE])
        release_pages(flat)


def contents_digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    """The digest of a file's contents, which shows whether they have changed.

    Args:
        text: its metadata.
        tensors: its tensors, by name.
    """
    state = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        state.update(f"{name}{tuple(tensors[name].shape)}{tensors[name].dtype}".encode())
        feed_tensor(state, tensors[name])
    return state.hexdigest()
