"""Image encoders: torchvision's networks without their last layer, or an exported module."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sbmc.checks import BadInput, Phrase, is_whole, nearest, require
from sbmc.embedding.text_encoder import DTYPES, check_batch
from sbmc.model.calling import require_weights
from sbmc.model.devices import as_device
from sbmc.storage.digests import digest
from sbmc.storage.optional import load_pillow

EXTRA = "Image encoders by name need torchvision: pip install 'sbmc[vision]'"
# Mean and standard deviation of ImageNet's pictures in [0, 1], on which torchvision's networks were
# trained.
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ImageEncoder:
    """Pictures to vectors.

    A picture is scaled so that its shorter side has `size` pixels (bilinear), cut to a square from
    the middle, divided by 255 and standardised with ImageNet's mean and standard deviation.

    Args:
        model: the name of a torchvision network; a file `.pt2` of `torch.export.save`, which gives
            features; or a module that does.
        weights: file of the network's weights, for a name: a state dict by `torch.save`, or
            safetensors.
        size: pixels of a side.
        batch_size: pictures at a time.
        dtype: precision of the computation; features are float32 in any case.
        device: where to compute.

    Raises:
        BadInput: an argument breaks its rule, or the weights do not fit.
        ImportError: torchvision is not installed.
    """

    def __init__(
        self,
        model: Any,
        weights: str | Path | None = None,
        *,
        size: int = 224,
        batch_size: int = 32,
        dtype: str = "float32",
        device: str = "cpu",
    ) -> None:
        check_batch(batch_size, dtype)
        require(is_whole(size) and size >= 1, "size", "a positive whole number", size)
        named = isinstance(model, str | Path)
        as_device(device)
        if not named:
            rule = "a torch.nn.Module, a file of one, or the name of a torchvision network"
            require(isinstance(model, nn.Module), "model", rule, model)
            require_weights(model)
        # In a copy: the user's module keeps its dtype, its device and its mode.
        self._module = _load(model, weights) if named else copy.deepcopy(model)
        checksum = digest(dict(self._module.state_dict()))
        self._module = self._module.to(device=device, dtype=DTYPES[dtype])
        if not _is_exported(model):  # an exported module has no modes
            self._module.eval()
        self._dtype, self._device = DTYPES[dtype], device
        self._size, self.batch_size = int(size), int(batch_size)
        self.about: Mapping[str, Any] = {
            "kind": "images",
            "model": Path(model).name if named else type(model).__name__,
            "weights": checksum,
            "size": int(size),
            "dtype": dtype,
        }

    def __call__(self, items: Sequence[Path]) -> np.ndarray:
        """Features `(pictures, features)`, float32."""
        parts = []
        for start in range(0, len(items), self.batch_size):
            batch = torch.stack(
                [self._read(path) for path in items[start : start + self.batch_size]]
            )
            with torch.inference_mode():
                outputs = self._module(batch.to(self._device, self._dtype))
            outputs = outputs[0] if isinstance(outputs, tuple | list) else outputs
            good = isinstance(outputs, Tensor) and outputs.ndim >= 2 and len(outputs) == len(batch)
            shown = Phrase(f"{getattr(outputs, 'shape', type(outputs).__name__)}")
            require(good, "model", f"one that gives ({len(batch)}, features)", shown)
            parts.append(outputs.flatten(1).float().cpu().numpy())
        return np.concatenate(parts)

    def _read(self, path: Path) -> Tensor:
        """One picture, `(3, size, size)`, standardised."""
        image = load_pillow()
        try:
            with image.open(path) as opened:
                picture = opened.convert("RGB")
        except OSError as error:
            raise BadInput(f"`source` must be pictures, but got {path.name}: {error}.") from error
        width, height = picture.size
        scale = self._size / min(width, height)
        wide, high = max(self._size, round(width * scale)), max(self._size, round(height * scale))
        picture = picture.resize((wide, high), image.Resampling.BILINEAR)
        left, top = (wide - self._size) // 2, (high - self._size) // 2
        picture = picture.crop((left, top, left + self._size, top + self._size))
        pixels = torch.from_numpy(np.asarray(picture, dtype=np.float32) / 255)
        return ((pixels - torch.tensor(MEAN)) / torch.tensor(DEVIATION)).permute(2, 0, 1)


def _is_exported(model: Any) -> bool:
    return isinstance(model, str | Path) and Path(model).suffix == ".pt2"


def _load(model: str | Path, weights: str | Path | None) -> nn.Module:
    if _is_exported(model):
        rule = "left out for an exported module, which has its own"
        require(weights is None, "weights", rule, str(weights))
        file_path = Path(model).expanduser()
        require(file_path.is_file(), "model", "a file .pt2 that exists", str(model))
        return torch.export.load(file_path).module()
    rule = "a file of weights (nothing is downloaded: fetch it elsewhere and give it)"
    require(weights is not None, "weights", rule, None)
    file_path = Path(str(weights)).expanduser()
    require(file_path.is_file(), "weights", rule, str(weights))
    try:
        models = importlib.import_module("torchvision.models")
    except ImportError as error:
        raise ImportError(EXTRA) from error
    names = models.list_models()
    if str(model) not in names:
        raise BadInput(
            "`model` must be a file .pt2, or the name of one of torchvision's networks, "
            f"but got {str(model)!r}.{nearest(str(model), names)}"
        )
    network: nn.Module = models.get_model(str(model), weights=None)
    state = _read_weights(file_path)
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise BadInput(
            f"`weights` must be those of {model}, but got {file_path} ({reason})."
        ) from error
    return without_head(network)


def without_head(network: nn.Module) -> nn.Module:
    """Replace the last linear layer by the identity, so that the network gives features.

    Args:
        network: changed in place.

    Returns:
        The network.

    Raises:
        BadInput: it has no linear layer.

    Examples:
        >>> without_head(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)))
        Sequential(
          (0): Flatten(start_dim=1, end_dim=-1)
          (1): Identity()
        )
    """
    linear_layers = [
        name for name, layer in network.named_modules() if isinstance(layer, nn.Linear)
    ]
    rule = "one whose last layer is linear"
    require(bool(linear_layers), "model", rule, Phrase(type(network).__name__))
    parent, _, name = linear_layers[-1].rpartition(".")
    setattr(network.get_submodule(parent), name, nn.Identity())
    return network


def _read_weights(path: Path) -> Any:
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a truncated file, or one without weights
        raise BadInput(f"`weights` must be a file of weights, but got {path}: {error}.") from error
