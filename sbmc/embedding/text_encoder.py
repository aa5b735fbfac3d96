"""Sentence encoders of sentence-transformers, from a folder; nothing is downloaded."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from sbmc.checks import BadInput, is_whole, require, require_choice, require_count, require_path
from sbmc.model.devices import as_device
from sbmc.storage.digests import digest

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
EXTRA = "Text encoders need sentence-transformers: pip install 'sbmc[text]'"


class TextEncoder:
    """Texts to vectors.

    Args:
        model: a folder of a sentence-transformers model, the name of one in the local cache, or the
            model itself.
        max_tokens: where texts are cut; the model's own limit if not given.
        batch_size: texts at a time.
        dtype: precision of the computation: `"float32"`, `"bfloat16"` or `"float16"`; embeddings
            are float32 in any case.
        device: where to compute.

    Raises:
        BadInput: an argument breaks its rule, or there is no such model on this machine.
        ImportError: sentence-transformers is not installed.
    """

    def __init__(
        self,
        model: Any,
        *,
        max_tokens: int | None = None,
        batch_size: int = 32,
        dtype: str = "float32",
        device: str = "cpu",
    ) -> None:
        check_batch(batch_size, dtype)
        good = max_tokens is None or (is_whole(max_tokens) and max_tokens >= 1)
        require(good, "max_tokens", "a positive whole number", max_tokens)
        named = isinstance(model, str | Path)
        as_device(device)
        if not named:
            rule = "a sentence-transformers model, its folder, or its name"
            require(isinstance(model, nn.Module) and hasattr(model, "encode"), "model", rule, model)
        self._model = load_model(model, device) if named else model
        limit = getattr(self._model, "max_seq_length", None)
        if max_tokens is not None:
            fits = limit is None or max_tokens <= limit
            require(fits, "max_tokens", f"at most the model's {limit}", max_tokens)
            self._model.max_seq_length = int(max_tokens)
        weights = digest(dict(self._model.state_dict()))
        self._model = self._model.to(DTYPES[dtype]).eval()
        self.batch_size = int(batch_size)
        name = Path(model).name if named else type(model).__name__
        self.about: Mapping[str, Any] = {
            "kind": "text",
            "model": name,
            "weights": weights,
            "max_tokens": limit if max_tokens is None else int(max_tokens),
            "dtype": dtype,
        }

    def __call__(self, items: Sequence[str]) -> np.ndarray:
        """Embeddings `(texts, features)`, float32."""
        with torch.inference_mode():
            vectors = self._model.encode(
                list(items),
                batch_size=self.batch_size,
                convert_to_tensor=True,
                show_progress_bar=False,
            )
        return vectors.float().cpu().numpy()


def load_model(model: str | Path, device: str = "cpu") -> Any:
    """Load a sentence-transformers model from this machine.

    Args:
        model: a folder, or a name in the local cache.
        device: where to put it.

    Returns:
        The model.

    Raises:
        BadInput: it is not on this machine.
        ImportError: sentence-transformers is not installed.
    """
    rule = (
        "the folder of a sentence-transformers model (nothing is downloaded: fetch it elsewhere "
        "and give its folder)"
    )
    folder = require_path("model", model).expanduser()
    if folder.exists():
        require(folder.is_dir(), "model", rule, str(model))
        config = any((folder / name).is_file() for name in ("modules.json", "config.json"))
        require(config, "model", rule, str(model))
    try:
        library = importlib.import_module("sentence_transformers")
    except ImportError as error:
        raise ImportError(EXTRA) from error
    location = str(folder) if folder.exists() else str(model)
    try:
        with _silence():
            return library.SentenceTransformer(location, device=device, local_files_only=True)
    except Exception as error:  # the library may raise any error
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BadInput(f"`model` must be {rule}, but got {str(model)!r} ({reason}).") from error


@contextmanager
def _silence() -> Iterator[None]:
    """Disable the progress bars of transformers, since this package has its own."""
    logging = importlib.import_module("transformers.utils.logging")
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def check_batch(batch_size: object, dtype: str) -> None:
    """Refuse a bad batch size or precision."""
    require_count("batch_size", batch_size)
    require_choice("dtype", dtype, DTYPES)
