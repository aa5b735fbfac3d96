"""Embeddings with their labels, as one `.npz` file."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import BadInput, Phrase, require, require_path
from sbmc.likelihoods.categorical import is_integer
from sbmc.storage.arrays import as_tensor


@dataclass(frozen=True, eq=False, repr=False)
class Embedded:
    """Embeddings of raw data by a frozen network.

    Attributes:
        inputs: `(examples, features)` float32.
        labels: `(examples,)` int64 from 0, or None.
        class_names: in the order of the labels.
        names: names of the items: files or rows.
        about: model, checksum of its weights, options, versions.
    """

    inputs: Tensor
    labels: Tensor | None = None
    class_names: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        inputs = as_tensor(self.inputs, "inputs")
        object.__setattr__(self, "inputs", inputs)
        shape = Phrase(f"shape {tuple(inputs.shape)}")
        require(inputs.ndim == 2, "inputs", "of shape (examples, features)", shape)
        if self.labels is not None:
            labels = as_tensor(self.labels, "labels")
            object.__setattr__(self, "labels", labels)
            good = labels.shape == inputs.shape[:1] and is_integer(labels.dtype)
            shown = Phrase(f"shape {tuple(labels.shape)} and dtype {labels.dtype}")
            require(good, "labels", f"integers, one for each of the {len(inputs)} examples", shown)
        for name in ("class_names", "names"):
            value = getattr(self, name)
            texts = isinstance(value, tuple | list) and all(isinstance(t, str) for t in value)
            require(texts, name, "a tuple of texts", value)
            object.__setattr__(self, name, tuple(value))
        require(isinstance(self.about, Mapping), "about", "a dict of plain values", self.about)

    def __len__(self) -> int:
        return len(self.inputs)

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.inputs.shape))
        return f"Embedded({shape}, classes={list(self.class_names)})"

    @property
    def checksum(self) -> str:
        """SHA-256 of inputs and labels: of their values, not of how a file packs them."""
        state = hashlib.sha256(f"{tuple(self.inputs.shape)}".encode())
        state.update(np.ascontiguousarray(self.inputs.numpy()).data)
        if self.labels is not None:
            state.update(np.ascontiguousarray(self.labels.numpy()).data)
        return state.hexdigest()

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the file atomically.

        Args:
            path: ends in `.npz`.

        Returns:
            The path.
        """
        final = check_name(path, "path")
        final.parent.mkdir(parents=True, exist_ok=True)
        arrays = {"inputs": self.inputs.numpy(), "names": np.array(self.names, dtype=np.str_)}
        if self.labels is not None:
            arrays["labels"] = self.labels.numpy()
            arrays["class_names"] = np.array(self.class_names, dtype=np.str_)
        about = {**self.about, "checksum": self.checksum}
        arrays["about"] = np.array(json.dumps(about, ensure_ascii=False, sort_keys=True))
        temporary = final.with_name(f".{final.name}.part")
        try:
            with temporary.open("wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
            os.replace(temporary, final)
        finally:
            temporary.unlink(missing_ok=True)
        return final


def load_embedded(path: str | PathLike[str]) -> Embedded:
    """Read embeddings: those of `sbmc embed`, or any file with `inputs` and perhaps `labels`.

    Args:
        path: of an `.npz` file.

    Returns:
        The embeddings.

    Raises:
        BadInput: there is no such file, its arrays do not fit, or its checksum does not match its
            values.
    """
    file_path = require_path("file", path).expanduser()
    require(file_path.is_file(), "file", "an .npz file that exists", str(path))
    try:
        with np.load(file_path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError, AttributeError) as error:
        # NumPy's own message advises to unpickle it.
        raise BadInput(f"`file` must be a readable .npz file, but got {str(path)!r}.") from error
    require("inputs" in arrays, "file", "one with an array `inputs`", sorted(arrays))
    inputs = arrays["inputs"]
    numeric = inputs.ndim == 2 and inputs.size > 0 and inputs.dtype.kind in "fiu"
    shown = Phrase(f"inputs of shape {inputs.shape} and dtype {inputs.dtype}")
    require(numeric, "file", "one with inputs (examples, features)", shown)
    values = torch.from_numpy(np.ascontiguousarray(inputs.astype(np.float32)))
    require(bool(torch.isfinite(values).all()), "file", "one of finite inputs", Phrase("others"))
    labels, classes = _labels(arrays, len(values))
    names = tuple(map(str, arrays["names"])) if "names" in arrays else ()
    about = json.loads(str(arrays["about"])) if "about" in arrays else {}
    embedded = Embedded(values, labels, classes, names, about)
    stated = about.get("checksum")
    rule = "as it was written (its checksum does not fit its values)"
    require(stated in (None, embedded.checksum), "file", rule, str(path))
    return embedded


def _labels(arrays: Mapping[str, np.ndarray], count: int) -> tuple[Tensor | None, tuple[str, ...]]:
    if "labels" not in arrays:
        return None, ()
    labels = arrays["labels"]
    shown = Phrase(f"labels of shape {labels.shape} and dtype {labels.dtype}")
    good = labels.shape == (count,) and labels.dtype.kind in "iu"
    require(good, "file", f"one with {count} whole-numbered labels", shown)
    low, high = int(labels.min()), int(labels.max())
    require(low >= 0, "file", "one with labels from 0", Phrase(f"label {low}"))
    names = tuple(map(str, arrays["class_names"])) if "class_names" in arrays else ()
    names = names or tuple(map(str, range(high + 1)))
    rule = f"one with labels below its {len(names)} classes"
    require(high < len(names), "file", rule, Phrase(f"label {high}"))
    return torch.from_numpy(labels.astype(np.int64)), names


def check_name(path: str | PathLike[str], name: str = "out") -> Path:
    """Refuse a name that `numpy` would change."""
    file_path = require_path(name, path).expanduser()
    good = file_path.suffix == ".npz" and not file_path.is_dir()
    require(good, name, "a file name that ends in .npz", str(path))
    return file_path
