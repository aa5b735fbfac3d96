"""Encodes tensors and plain values as safetensors and JSON, with a digest that shows damage."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from sbmc.samplers.snapshot import Snapshot
from sbmc.storage.files import parse_json


class Damaged(ValueError):
    """The bytes have changed since they were written, or are not those of a checkpoint."""


def pack(tensors: Mapping[str, Tensor], metadata: dict[str, Any]) -> bytes:
    """Tensors and plain values as the bytes of a safetensors file.

    Args:
        tensors: on any device, of any shape and layout; they may share memory.
        metadata: values that JSON has, and also NaN and the infinities.

    Examples:
        >>> tensors, metadata = unpack(pack({"x": torch.ones(2)}, {"steps": 3}))
        >>> tensors["x"], metadata
        (tensor([1., 1.]), {'steps': 3})
    """
    from safetensors.torch import save

    text = json.dumps(metadata)
    plain = _separate_memory(tensors)
    return save(plain, metadata={"sbmc": text, "digest": _digest(text, plain)})


def unpack(data: bytes) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Decode what `pack` encoded, with the tensors on the CPU.

    Raises:
        Damaged: bytes have changed or are missing, or `pack` did not write them.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        texts = _texts(data)
        tensors = load(data)
        intact = _digest(texts["sbmc"], tensors) == texts["digest"]
        metadata = parse_json(texts["sbmc"])
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise Damaged(f"unreadable: {error}") from None
    if not intact:
        raise Damaged("its contents have changed since it was written")
    if not isinstance(metadata, dict):
        raise Damaged(f"a {type(metadata).__name__} instead of an object")
    return tensors, metadata


def same(one: bytes, other: bytes) -> bool:
    """Whether two packs are undamaged and hold the same, whatever the order of their bytes."""
    try:
        unpack(one)
        unpack(other)
    except Damaged:
        return False
    return _texts(one)["digest"] == _texts(other)["digest"]


def encode(parts: Mapping[str, Snapshot], values: dict[str, Any]) -> bytes:
    """Encode a stack of snapshots, in its order, and further values.

    Examples:
        >>> stack = {"outer": Snapshot({"x": torch.zeros(1)}, {"k": 2}), "inner": Snapshot({}, {})}
        >>> parts, values = decode(encode(stack, {"attempts": 1}))
        >>> list(parts), values
        (['outer', 'inner'], {'attempts': 1})
        >>> parts["outer"]
        Snapshot(tensors={'x': tensor([0.])}, values={'k': 2})
    """
    tensors: dict[str, Tensor] = {}
    described = []
    for part, snapshot in parts.items():
        for name, tensor in snapshot.tensors.items():
            key = f"{part}/{name}"
            if key in tensors:
                raise ValueError(f"two tensors are called {key!r}")
            tensors[key] = tensor
        names = list(snapshot.tensors)
        described.append({"name": part, "tensors": names, "values": snapshot.values})
    return pack(tensors, {"kind": "stack", "parts": described, "values": values})


def decode(data: bytes) -> tuple[dict[str, Snapshot], dict[str, Any]]:
    """Decode what `encode` encoded, with the tensors on the CPU.

    Raises:
        Damaged: see `unpack`.
    """
    tensors, metadata = unpack(data)
    if metadata.get("kind") != "stack":
        raise Damaged("it is not a stack of snapshots")
    parts = {
        part["name"]: Snapshot(
            {name: tensors[f"{part['name']}/{name}"] for name in part["tensors"]}, part["values"]
        )
        for part in metadata["parts"]
    }
    return parts, metadata["values"]


def _separate_memory(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous tensors on the CPU that share no memory, as safetensors requires."""
    plain: dict[str, Tensor] = {}
    addresses: set[int] = set()
    for name, tensor in tensors.items():
        flat = tensor.detach().cpu().contiguous()
        if flat.untyped_storage().data_ptr() in addresses:
            flat = flat.clone()
        addresses.add(flat.untyped_storage().data_ptr())
        plain[name] = flat
    return plain


def _texts(data: bytes) -> dict[str, str]:
    """The texts in a safetensors file's header, which `safetensors.torch.load` does not give."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length])["__metadata__"]


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(f"{name}{tuple(tensors[name].shape)}{tensors[name].dtype}".encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
