"""Embeds items in shards, so that a run that was killed can continue with the same bits."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from sbmc.checks import BadInput, Phrase, is_whole, require, require_flag
from sbmc.embedding.embedded import Embedded, check_name, load_embedded
from sbmc.embedding.sources import Source
from sbmc.log import logger
from sbmc.progress import open_progress

# Batches in a shard: the most work that a killed run loses.
SHARD_BATCHES = 4
MANIFEST = "manifest.json"


class Encoder(Protocol):
    """A frozen network with its preprocessing.

    Attributes:
        about: plain values that decide what it computes: model, checksum of the weights, options.
        batch_size: items that it is given at a time.
    """

    about: Mapping[str, Any]
    batch_size: int

    def __call__(self, items: Sequence[Any]) -> np.ndarray:
        """Embeddings `(items, features)`; they depend only on the items."""


def embed(
    source: Source,
    encoder: Encoder,
    out: str | PathLike[str],
    *,
    force: bool = False,
    progress: bool | None = None,
) -> Embedded:
    """Embed items in their order, and write one file.

    Items are embedded in shards of a few batches. Each shard is a file beside the output until all
    are done. A shard depends only on its own items, so that the same call continues a run that was
    killed and ends with the same bits.

    Args:
        source: the items.
        encoder: embeds them.
        out: the `.npz` file to write.
        force: overwrite an existing file, and remove the shards of another run.
        progress: None shows a bar on a terminal; True always shows something; False nothing.

    Returns:
        The embeddings.

    Raises:
        BadInput: the output exists and has other items or another model, or the encoder does not
            give one finite vector for each item.
    """
    final = check_name(out)
    rule = "a Source, such as read_texts(...) returns"
    require(isinstance(source, Source), "source", rule, source)
    good = callable(encoder) and isinstance(getattr(encoder, "about", None), Mapping)
    good = good and is_whole(getattr(encoder, "batch_size", None))
    rule = "an encoder, such as TextEncoder(...): a function with `about` and `batch_size`"
    require(good, "encoder", rule, encoder)
    require_flag("force", force)
    require_flag("progress", progress, optional=True)
    identity = _identity(source, encoder)
    if final.exists() and not force:
        existing = load_embedded(final)
        rule = "a new file, or --force (force=True) to overwrite what is there"
        require(existing.about.get("identity") == identity, "out", rule, str(out))
        logger.info("%s exists already", final)
        return existing
    parts = final.with_name(f"{final.name}.parts")
    _prepare(parts, identity, force)
    size = encoder.batch_size * SHARD_BATCHES
    starts = range(0, len(source), size)
    done = {start: _read(parts / _name(start), min(size, len(source) - start)) for start in starts}
    before = sum(len(shard) for shard in done.values() if shard is not None)
    total = len(source)
    with open_progress(progress, "embedding", total=total, unit="items", before=before) as bar:
        count = before
        bar.update(count)
        for start in starts:
            if done[start] is None:
                items = source.items[start : start + size]
                done[start] = _checked(encoder(items), len(items))
                _write(parts / _name(start), done[start])
                count += len(items)
                bar.update(count)
    shards = [shard for shard in done.values() if shard is not None]
    widths = sorted({shard.shape[1] for shard in shards})
    require(len(widths) == 1, "encoder", "one that always gives as many features", widths)
    embedded = Embedded(
        torch.from_numpy(np.concatenate(shards)),
        None if source.labels is None else torch.tensor(source.labels),
        source.class_names,
        source.names,
        {**encoder.about, "identity": identity},
    )
    embedded.save(final)
    shutil.rmtree(parts)
    return embedded


def _identity(source: Source, encoder: Encoder) -> str:
    """A digest of all that the result depends on: items, classes, model and shards."""
    state = hashlib.sha256()
    for each in (dict(encoder.about), encoder.batch_size, SHARD_BATCHES, source.class_names):
        state.update(json.dumps(each, sort_keys=True).encode() + b"\n")
    for name, stamp in zip(source.names, source.stamps, strict=True):
        state.update(f"{name}\n{len(stamp)}\n{stamp}\n".encode())
    state.update(repr(source.labels).encode())
    return state.hexdigest()[:16]


def _prepare(parts: Path, identity: str, force: bool) -> None:
    manifest = parts / MANIFEST
    if parts.exists():
        try:
            saved_identity = json.loads(manifest.read_text("utf-8")).get("identity")
        except (OSError, ValueError, AttributeError):
            saved_identity = None
        if saved_identity == identity:
            return
        rule = f"a file without shards of other items or another model ({parts}), or --force"
        require(force or saved_identity is None, "out", rule, Phrase("such shards"))
        shutil.rmtree(parts)
    parts.mkdir(parents=True)
    _replace(manifest, json.dumps({"identity": identity}).encode())


def _name(start: int) -> str:
    return f"shard-{start:09d}.npy"


def _write(path: Path, shard: np.ndarray | None) -> None:
    assert shard is not None
    temporary = path.with_suffix(".part")
    with temporary.open("wb") as file:
        np.save(file, shard)
    os.replace(temporary, path)


def _read(path: Path, rows: int) -> np.ndarray | None:
    """Read a shard; None if it is missing or not complete."""
    if not path.exists():
        return None
    try:
        shard = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        logger.warning("%s is damaged (%s): embedding again", path, error)
        return None
    complete = shard.ndim == 2 and len(shard) == rows and shard.dtype == np.float32
    return shard if complete and bool(np.isfinite(shard).all()) else None


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_suffix(".part")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def _checked(values: np.ndarray, count: int) -> np.ndarray:
    shape = tuple(np.shape(values))
    if len(shape) != 2 or shape[0] != count or not shape[1]:
        raise BadInput(f"`encoder` must give ({count}, features), but got the shape {shape}.")
    values = np.ascontiguousarray(values, dtype=np.float32)
    finite = bool(np.isfinite(values).all())
    require(finite, "encoder", "one of finite values", Phrase("NaN or infinity"))
    return values
