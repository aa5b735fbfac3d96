"""Pictures and texts of single inputs, looked up in the data sets on this machine."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sbmc.checks import BadInput
from sbmc.datasets.locate import DataNotFound, locate
from sbmc.report.markup import cut
from sbmc_studies.data import load_dataset
from sbmc_studies.data.mnist7 import FILE as MNIST
from sbmc_studies.runs.extremes import TEST, Extreme

# Data sets of pictures, with the file that each needs; None if the data are part of a package.
PICTURES: dict[str, str | None] = {"digits": None, "mnist7": MNIST}
TEXTS = {"imdb": "imdb_test_sample.jsonl.gz"}
MOST_LETTERS = 300


def look_up_pictures(
    name: str, extremes: Sequence[Extreme], seed: int, data_dir: Path | None
) -> list[np.ndarray] | None:
    """Find the pictures of inputs on this machine; nothing is downloaded.

    Args:
        name: of the data set.
        extremes: which inputs.
        seed: of the run, which some out-of-domain groups are drawn with.
        data_dir: where to look first.

    Returns:
        A picture for each; None if the data set has no pictures, or is not on this machine.
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
    pictures = []
    for each in extremes:
        inputs = groups.get(each.group)
        if inputs is None or not 0 <= each.index < len(inputs) or inputs.ndim != 4:
            return None
        pictures.append(inputs[each.index, 0].numpy())
    return pictures


def look_up_texts(
    name: str, extremes: Sequence[Extreme], data_dir: Path | None
) -> list[str | None] | None:
    """Find the texts of inputs, cut at `MOST_LETTERS`.

    Args:
        name: of the data set.
        extremes: which inputs.
        data_dir: where to look first.

    Returns:
        A text for each, None for inputs without one; None if the data set has no texts, or is not
        on this machine.
    """
    if name not in TEXTS:
        return None
    rows = {each.index for each in extremes if each.group == TEST}
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
    return [texts.get(each.index) if each.group == TEST else None for each in extremes]
