"""Folders of pictures as rows of data: subfolders are classes, pixels are numbers from 0 to 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import BadInput, Phrase, require
from sbmc.datasets.files import Rows, TargetUse
from sbmc.embedding.sources import Source, find_pictures
from sbmc.progress import open_progress
from sbmc.storage.optional import load_pillow

GREY, COLOUR = "grey", "colour"
# Pillow's names of what has one channel, and of what has more than 8 bits in it.
_GREY_MODES = ("1", "L", "LA", "La")
_DEEP_MODES = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")


@dataclass(frozen=True)
class PictureForm:
    """What pictures are made into: `(channels, height, width)`, from 0 (black) to 1.

    Attributes:
        height: in pixels.
        width: in pixels.
        channels: `"grey"`, one channel, or `"colour"`, three.
        classes: the names of the classes, those of the subfolders.
    """

    height: int
    width: int
    channels: str
    classes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.width}×{self.height} pixels, {self.channels}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> PictureForm:
        """The form that `as_dict` described."""
        classes = tuple(map(str, content["classes"]))
        sizes = int(content["height"]), int(content["width"])
        return cls(*sizes, str(content["channels"]), classes)


def learn_form(
    path: str | PathLike[str], size: tuple[int, int] | None = None, channels: str | None = None
) -> PictureForm:
    """Find out what the pictures of a training folder are made into.

    Args:
        path: a folder with a subfolder of pictures for each class.
        size: height and width to resize to; if not given, all pictures must have one size.
        channels: `"grey"` or `"colour"`; if not given, grey if all pictures are.

    Returns:
        The form.

    Raises:
        BadInput: no folder, no classes, or pictures of different sizes without a `size`.
        ImportError: Pillow is not installed.
    """
    source = find_pictures(path, name="data")
    rule = "a folder with a subfolder of pictures for each class, two or more of them"
    got = Phrase(f"{str(path)!r}, with {len(source.class_names)} subfolders")
    require(len(source.class_names) > 1, "data", rule, got)
    rule = f"{GREY} or {COLOUR}"
    require(channels in (None, GREY, COLOUR), "channels", rule, channels)
    sizes, modes = set(), set()
    for each in source.items:
        with _open(each) as picture:
            sizes.add((picture.height, picture.width))
            modes.add(picture.mode)
    if size is None:
        shown = ", ".join(f"{width}x{height}" for height, width in sorted(sizes)[:3])
        rule = "given for pictures of different sizes, as WIDTHxHEIGHT in pixels"
        require(len(sizes) == 1, "size", rule, Phrase(f"pictures of {len(sizes)} ({shown})"))
        size = next(iter(sizes))
    channels = channels or (GREY if modes <= set(_GREY_MODES) else COLOUR)
    return PictureForm(*size, channels, source.class_names)


def read_picture_rows(
    path: str | PathLike[str],
    form: PictureForm,
    *,
    target_use: TargetUse = "optional",
    progress: bool | None = False,
) -> tuple[Rows, int]:
    """Read the pictures of a folder.

    Args:
        path: a folder of pictures; subfolders, if there are any, are classes.
        form: what each picture is made into; pictures of another size are resized (bilinear).
        target_use: `"ignored"` does not look at the names of subfolders, `"required"` refuses a
            folder without them.
        progress: None for automatic, True for always.

    Returns:
        The rows: float32 `(pictures, channels, height, width)`, with the names of their files; and
        how many of them were resized.

    Raises:
        BadInput: there is no picture, one cannot be read, or a subfolder is no class of the form.
        ImportError: Pillow is not installed.
    """
    source = find_pictures(path, name="data")
    looked_for = target_use != "ignored" and source.labels is not None
    labels = _labels(source, form.classes) if looked_for else None
    rule = f"a folder with a subfolder for each class ({', '.join(form.classes)})"
    missing = target_use == "required" and labels is None
    require(not missing, "data", rule, Phrase(f"{str(path)!r}, with pictures alone"))
    pixels, resized = [], 0
    with open_progress(progress, "pictures", total=len(source.items), unit="pictures") as bar:
        for each in source.items:
            with _open(each) as picture:
                resized += picture.size != (form.width, form.height)
                pixels.append(_pixels(picture, form, each))
            bar.update(len(pixels))
    inputs = torch.from_numpy(np.stack(pixels))
    folder = Path(path).resolve().name
    return Rows(inputs, labels, source.names, "file", folder, classes=form.classes), resized


def _labels(source: Source, classes: Sequence[str]) -> Tensor:
    index = {name: number for number, name in enumerate(classes)}
    for name in source.class_names:
        rule = f"a folder whose subfolders are classes of the posterior ({', '.join(classes)})"
        require(name in index, "data", rule, name)
    assert source.labels is not None
    return torch.tensor([index[source.class_names[label]] for label in source.labels])


def _pixels(picture: Any, form: PictureForm, path: Path) -> np.ndarray:
    """The pixels of one picture, `(channels, height, width)`."""
    try:
        plain = picture.convert("L" if form.channels == GREY else "RGB")
    except OSError as error:  # the file is shorter than it should be
        raise BadInput(f"`data` must be pictures, but got {path.name} ({error}).") from None
    if plain.size != (form.width, form.height):
        plain = plain.resize((form.width, form.height), load_pillow().Resampling.BILINEAR)
    values = np.asarray(plain, dtype=np.float32) / 255
    return values[None] if values.ndim == 2 else values.transpose(2, 0, 1)


def _open(path: Path) -> Any:
    try:
        picture = load_pillow().open(path)
    except OSError as error:
        raise BadInput(f"`data` must be pictures, but got {path.name} ({error}).") from None
    shown = Phrase(f"{path.name}, of Pillow's mode {picture.mode}")
    require(picture.mode not in _DEEP_MODES, "data", "pictures of 8 bits a channel", shown)
    return picture
