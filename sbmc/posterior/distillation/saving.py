"""A distilled network as one file: safetensors with JSON metadata, no pickle."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sbmc.checks import BadInput, Phrase, require, require_path
from sbmc.posterior.distillation.fidelity import Fidelity
from sbmc.posterior.distillation.heads import ClassHeads, Heads, NumberHeads
from sbmc.posterior.distillation.student import Architecture, build_student
from sbmc.posterior.dtypes import as_dtype
from sbmc.storage.digests import contents_digest
from sbmc.storage.files import atomic_write, parse_json

FORMAT = "sbmc-distilled"
VERSION = 1


class Contents(NamedTuple):
    """What a file holds."""

    student: nn.Module
    heads: Heads
    architecture: Architecture | None  # None for a student that was given
    fidelity: Fidelity | None
    settings: dict[str, Any]


def write_distilled(path: str | Path, contents: Contents) -> None:
    """Write a file, completely or not at all; see `Distilled.save`."""
    from safetensors.torch import save_file

    final = require_path("path", path)
    require(final.parent.is_dir(), "path", "in an existing folder", str(path))
    require(not final.is_dir(), "path", "the name of a file, not of a folder", str(path))
    heads = contents.heads
    tensors = {name: t.detach().contiguous() for name, t in contents.student.state_dict().items()}
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "dtype": str(next(contents.student.parameters()).dtype),
        "classes": heads.classes if isinstance(heads, ClassHeads) else None,
        "units": [heads.shift.tolist(), heads.scale.tolist()]
        if isinstance(heads, NumberHeads)
        else None,
        "architecture": contents.architecture and contents.architecture.as_dict(),
        "fidelity": contents.fidelity and contents.fidelity.as_dict(),
        "settings": contents.settings,
    }
    text = json.dumps(metadata)
    with atomic_write(final) as temporary:
        digest = contents_digest(text, tensors)
        save_file(tensors, temporary, metadata={"sbmc": text, "digest": digest})


def is_distilled(path: Path) -> bool:
    """Whether a file is one of a distilled network, by its head; False if it cannot be read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = parse_json((file.metadata() or {}).get("sbmc", "null"))
    except (SafetensorError, OSError, ValueError):
        return False
    return isinstance(metadata, dict) and metadata.get("format") == FORMAT


def read_distilled(path: str | Path, network: nn.Module | None) -> Contents:
    """Read a file; see `Distilled.load`."""
    metadata, tensors = _read(require_path("path", path))
    try:
        dtype = as_dtype(metadata["dtype"])
        described = metadata["architecture"]
        architecture = None if described is None else Architecture.from_dict(described)
        heads: Heads
        if metadata["classes"] is not None:
            heads = ClassHeads(int(metadata["classes"]))
        else:
            heads = NumberHeads(*(torch.tensor(each) for each in metadata["units"]))
        measured = metadata["fidelity"]
        fidelity = None if measured is None else Fidelity.from_dict(measured)
        settings = dict(metadata["settings"])
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error
    if architecture is not None:
        rule = f"left out: the file has its own architecture ({architecture})"
        require(network is None, "network", rule, network)
        student: nn.Module = build_student(architecture, dtype)
    else:
        rule = "the module that the student was trained from, whose code is not in the file"
        require(isinstance(network, nn.Module), "network", rule, network)
        assert network is not None
        student = copy.deepcopy(network).to(dtype)
    try:
        student.load_state_dict(tensors)
    except RuntimeError as error:
        if architecture is not None:
            raise _damaged(path, "other weights than its architecture has") from error
        raise BadInput(
            "`network` must be the module that the student was trained from, but got one with "
            f"other weights ({str(error).splitlines()[-1].strip()})."
        ) from error
    return Contents(student.eval(), heads, architecture, fidelity, settings)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    from safetensors import SafetensorError, safe_open

    require(path.is_file(), "path", "an existing file", str(path))
    try:
        with safe_open(path, framework="pt") as file:
            texts = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise _damaged(path, str(error)) from None
    rule = "a file that Distilled.save wrote"
    require({"sbmc", "digest"} <= set(texts), "path", rule, str(path))
    if contents_digest(texts["sbmc"], tensors) != texts["digest"]:
        raise _damaged(path, "its contents have changed since it was written")
    metadata = parse_json(texts["sbmc"])
    kind = (metadata.get("format"), metadata.get("version")) if isinstance(metadata, dict) else ()
    got = Phrase(f"{str(path)!r}, of format {' version '.join(map(str, kind))}")
    require(kind == (FORMAT, VERSION), "path", rule, got)
    return metadata, tensors


def _damaged(path: str | Path, why: str) -> BadInput:
    return BadInput(
        f"`path` must be an undamaged file of a distilled network, but got {str(path)!r} ({why}). "
        "Distil the posterior again, or take another copy."
    )
