"""Inputs to look at: small PNG files by the standard library alone, and texts, from data sets."""

from __future__ import annotations

import base64
import gzip
import json
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sbmc.checks import BadInput, require
from sbmc.datasets.locate import DataNotFound, locate
from sbmc.report.markup import cut
from sbmc_studies.data import load_dataset
from sbmc_studies.data.mnist7 import FILE as MNIST
from sbmc_studies.runs.extremes import TEST, Extreme

# Data sets of pictures, with the file that each needs; none for those that are embedded.
PICTURES: dict[str, str | None] = {"digits": None, "mnist7": MNIST}
TEXTS = {"imdb": "imdb_test_sample.jsonl.gz"}
MOST_LETTERS = 300
# A picture of more pixels on a side is not small: every so many of them are taken.
MOST_PIXELS = 64


def png(image: np.ndarray) -> bytes:
    r"""A PNG file of 8 bits a channel.

    Args:
        image: `(height, width)` in grey or `(height, width, 3)` in colour, values from 0 to 1.

    Returns:
        The file.

    Example:
        >>> png(np.zeros((2, 2)))[:4]
        b'\x89PNG'
    """
    good = image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 3)
    rule = "of shape (height, width) or (height, width, 3)"
    require(bool(good and image.size), "image", rule, image.shape)
    step = -(-max(image.shape[:2]) // MOST_PIXELS)
    small = np.nan_to_num(np.asarray(image, dtype=np.float64)[::step, ::step])
    pixels = np.round(255 * np.clip(small, 0, 1)).astype(np.uint8)
    height, width = pixels.shape[:2]
    rows = pixels.reshape(height, -1)
    # Each row begins with the number of its filter: none.
    raw = np.hstack([np.zeros((height, 1), np.uint8), rows]).tobytes()
    colour = 0 if pixels.ndim == 2 else 2
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


def data_url(image: np.ndarray) -> str:
    """A picture as an address that holds it."""
    return "data:image/png;base64," + base64.b64encode(png(image)).decode("ascii")


def look_up_pictures(
    name: str, wanted: Sequence[Extreme], seed: int, data_dir: Path | None
) -> list[np.ndarray] | None:
    """Find the pictures of inputs, on this machine: nothing is fetched.

    Args:
        name: of the data set.
        wanted: which inputs.
        seed: of the run, which some out-of-domain groups are drawn with.
        data_dir: where to look first.

    Returns:
        A picture for each; None if the data set has no pictures, or is not here.
    """
    if name not in PICTURES:
        return None
    try:
        file = PICTURES[name]
        if file is not None:
            locate(file, data_dir)
        data = load_dataset(name, data_dir, seed)
    except (BadInput, DataNotFound, OSError):
        return None
    groups = {TEST: data.test[0], **data.ood}
    found = []
    for each in wanted:
        inputs = groups.get(each.group)
        if inputs is None or not 0 <= each.index < len(inputs) or inputs.ndim != 4:
            return None
        found.append(inputs[each.index, 0].numpy())
    return found


def look_up_texts(
    name: str, wanted: Sequence[Extreme], data_dir: Path | None
) -> list[str | None] | None:
    """Find the texts of inputs, cut at `MOST_LETTERS`.

    Args:
        name: of the data set.
        wanted: which inputs.
        data_dir: where to look first.

    Returns:
        A text for each, None for those that have none; None if there are no texts here at all.
    """
    if name not in TEXTS:
        return None
    rows = {each.index for each in wanted if each.group == TEST}
    texts: dict[int, str] = {}
    try:
        with gzip.open(locate(TEXTS[name], data_dir), "rt", encoding="utf-8") as file:
            for index, line in enumerate(file):
                if index in rows:
                    texts[index] = cut(
                        json.loads(line)["text"].replace("<br />", " "), MOST_LETTERS
                    )
    except (BadInput, DataNotFound, OSError, EOFError, ValueError, KeyError, TypeError):
        return None
    return [texts.get(each.index) if each.group == TEST else None for each in wanted]
