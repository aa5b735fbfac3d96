"""Data sets of features that a frozen network computed once: what is sampled is a head on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import BadInput
from sbmc.datasets.bundle import DataBundle, checksum
from sbmc.datasets.locate import locate
from sbmc.log import logger
from sbmc.randomness import Stream, generator
from sbmc_studies.data.archive import read_arrays

# One split for all runs: seeds of a study differ in everything but the data.
SPLIT_SEED = 0
# Rows that are decoded at a time: what is in between then takes no memory to speak of.
_PIECE = 4096


@dataclass(frozen=True)
class FeatureFile:
    """A file of features: what is in it, and how its numbers are read.

    Attributes:
        name: of the data set.
        file: the file's name.
        sha256: of the arrays in the file that our records were made with.
        width: features of an example.
        classes: how many labels there are.
        groups: the out-of-domain groups, in the order of tables; array `ood_<group>` in the file.
        decode: bytes and scale -> features, both float32; works in place on the first.
        about: what the file holds and how it is made, for whoever lacks it.
    """

    name: str
    file: str
    sha256: str
    width: int
    classes: int
    groups: tuple[str, ...]
    decode: Callable[[Tensor, Tensor], Tensor]
    about: str

    @property
    def arrays(self) -> tuple[str, ...]:
        """The arrays that the file has to have."""
        outside = (f"ood_{group}" for group in self.groups)
        return ("x_train", "y_train", "x_test", "y_test", *outside)


class FeatureBundle(DataBundle):
    """A data set whose training and validation examples are parts of one tensor.

    Samplers condition on both, and a second copy of the features would cost as much memory as the
    first: 410 MB for CIFAR-10.
    """

    @property
    def train_and_validation(self) -> tuple[Tensor, Tensor]:
        """Training and validation examples together, as a view."""
        (inputs, labels), (more, _) = self.train, self.validation
        rows = len(inputs) + len(more)
        assert more.data_ptr() == inputs.data_ptr() + inputs.nbytes  # as `load_features` made them
        joined = inputs.as_strided((rows, *inputs.shape[1:]), inputs.stride())
        return joined, labels.as_strided((rows,), labels.stride())


def read_features(source: FeatureFile, path: Path) -> tuple[dict[str, np.ndarray], str]:
    """Read a file of features and check the form of what is in it.

    Features are bytes that an array `scale`, one number a feature, decodes; or, without it, floats.

    Args:
        source: what to expect.
        path: of the file.

    Returns:
        The arrays, and their checksum. Another one than that of our records is no error, since
        features can be made anew; the record has it, and records of different data are not pooled.

    Raises:
        BadInput: if the file cannot be read, lacks an array, or has arrays of another form.
    """
    arrays = read_arrays(path, source.arrays, ["scale"])
    coded = "scale" in arrays
    for name, array in arrays.items():
        good, rule = _form(source, name, array, coded)
        if not good:
            given = f"{array.dtype} {tuple(array.shape)}"
            raise BadInput(f"`{path}` must have {name} as {rule}, but got {given}.")
    for part in ("train", "test"):
        if len(arrays[f"x_{part}"]) != len(arrays[f"y_{part}"]):
            counts = f"{len(arrays[f'x_{part}'])} and {len(arrays[f'y_{part}'])}"
            raise BadInput(
                f"`{path}` must have a label for each row of x_{part}, but got {counts}."
            )
    digest = checksum(arrays)
    if digest != source.sha256:
        logger.info("%s is not the file that our records were made with", path)
    return arrays, digest


def load_features(source: FeatureFile, data_dir: str | PathLike[str] | None) -> FeatureBundle:
    """Load features, their splits made.

    Of the training examples, one in ten validates, after a shuffle whose seed is fixed.

    Args:
        source: which ones.
        data_dir: where to look first for the file.

    Returns:
        The data set; inputs are `(n, width)` float32.

    Raises:
        DataNotFound: if the file is nowhere; the message says how it is made.
        BadInput: if the file has another content.
    """
    arrays, digest = read_features(source, locate(source.file, data_dir, about=source.about))
    count = len(arrays["x_train"])
    order = split_order(count)
    inputs = decoded(source, arrays, "x_train", order)
    labels = _labels(arrays["y_train"][order])
    training_rows = count - count // 10
    return FeatureBundle(
        name=source.name,
        checksum=digest,
        classes=source.classes,
        train=(inputs[:training_rows], labels[:training_rows]),
        validation=(inputs[training_rows:], labels[training_rows:]),
        test=(decoded(source, arrays, "x_test"), _labels(arrays["y_test"])),
        ood={group: decoded(source, arrays, f"ood_{group}") for group in source.groups},
    )


def split_order(count: int) -> np.ndarray:
    """The order of the training examples: the last tenth validates.

    Args:
        count: how many there are.

    Returns:
        A permutation, the same in every run.
    """
    return torch.randperm(count, generator=generator(SPLIT_SEED, Stream.SPLIT)).numpy()


def decoded(
    source: FeatureFile,
    arrays: Mapping[str, np.ndarray],
    name: str,
    rows: np.ndarray | slice = slice(None),
) -> Tensor:
    """Features of one array as float32.

    Args:
        source: whose decoding it is.
        arrays: of the file.
        name: which one of them.
        rows: which rows of it, in which order.

    Returns:
        `(rows, width)`.
    """
    chosen = arrays[name][rows]
    values = torch.empty(chosen.shape, dtype=torch.float32)
    scale = torch.from_numpy(arrays["scale"]) if "scale" in arrays else None
    for start in range(0, len(chosen), _PIECE):
        piece = values[start : start + _PIECE]
        piece.copy_(torch.from_numpy(chosen[start : start + _PIECE]))
        if scale is not None:
            source.decode(piece, scale)
    return values


def _labels(labels: np.ndarray) -> Tensor:
    return torch.from_numpy(labels.astype(np.int64))


def _form(source: FeatureFile, name: str, array: np.ndarray, coded: bool) -> tuple[bool, str]:
    if name == "scale":
        return array.shape == (source.width,) and array.dtype == np.float32, (
            f"float32 ({source.width},)"
        )
    if name.startswith("y_"):
        good = array.ndim == 1 and array.dtype == np.uint8 and array.max(initial=0) < source.classes
        return good and len(array) >= 10, f"at least ten labels below {source.classes}, uint8"
    kind = "a byte each" if coded else "floats, since there is no array scale"
    right = array.dtype.itemsize == 1 if coded else array.dtype.kind == "f"
    return array.ndim == 2 and array.shape[1] == source.width and right, (
        f"rows of {source.width} features, {kind}"
    )
