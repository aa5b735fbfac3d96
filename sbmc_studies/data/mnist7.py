"""MNIST7, the paper's data set: MNIST digits 0 to 7 in domain, a small training set."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import BadInput
from sbmc.datasets.bundle import DataBundle, checksum
from sbmc.datasets.groups import perturbed, white_noise
from sbmc.datasets.locate import cache_dir, locate
from sbmc_studies.data.archive import read_arrays

DESCRIPTION = "MNIST, 0-7 in domain, 8 and 9 outside; 1,200 examples to learn from, 7,000 to test"
FILE = "mnist.npz"
SHA256 = "a7b5dc350b1a31dfdb92ba7790f216f3c438ccaa55f52c10d01fc40bb3f12464"

_ARRAYS = ("x_train", "y_train", "x_test", "y_test")
_CLASSES = 8
_TRAIN, _VALIDATION, _TEST = 1000, 200, 7000
_GROUP = 500


def load(data_dir: str | PathLike[str] | None = None, seed: int = 0) -> DataBundle:
    """Load MNIST7 as the paper describes it.

    Pixels are divided by 255, into [0, 1], and not normalised further. Of the training images with
    labels 0 to 7, the first 1,000 train and the next 200 validate; of the test images with these
    labels, the first 7,000 test. Each out-of-domain group has 500 images: the first 8s and the
    first 9s of the test images, white noise, and the first in-domain test images, perturbed.

    Args:
        data_dir: where to look first for `mnist.npz`.
        seed: of the white noise and of the perturbations.

    Returns:
        The data set; inputs are `(n, 1, 28, 28)` float32.

    Raises:
        DataNotFound: if there is no `mnist.npz` and it cannot be fetched.
        BadInput: if the file found does not hold MNIST in the original order.
    """
    arrays, digest = read(locate(FILE, data_dir, fetch=fetch))
    train = _in_domain(arrays["x_train"], arrays["y_train"], _TRAIN + _VALIDATION)
    test = _in_domain(arrays["x_test"], arrays["y_test"], _TEST)
    return DataBundle(
        name="mnist7",
        checksum=digest,
        classes=_CLASSES,
        train=(train[0][:_TRAIN].clone(), train[1][:_TRAIN].clone()),
        validation=(train[0][_TRAIN:].clone(), train[1][_TRAIN:].clone()),
        test=test,
        ood={
            "8": _images(arrays["x_test"][arrays["y_test"] == 8][:_GROUP]),
            "9": _images(arrays["x_test"][arrays["y_test"] == 9][:_GROUP]),
            "white_noise": white_noise(_GROUP, (1, 28, 28), seed),
            "perturbed": perturbed(test[0][:_GROUP], seed),
        },
    )


def read(path: Path) -> tuple[dict[str, np.ndarray], str]:
    """Read `mnist.npz` and verify what is in it.

    Args:
        path: of a file with the arrays `x_train`, `y_train`, `x_test` and `y_test`, of bytes.

    Returns:
        The arrays, and their checksum.

    Raises:
        BadInput: if the file cannot be read, lacks an array, or has another content.
    """
    arrays = read_arrays(path, _ARRAYS)
    digest = checksum(arrays)
    if digest != SHA256:
        raise BadInput(
            f"`{path}` must be MNIST in its original order, as bytes (SHA-256 of the arrays "
            f"{SHA256}), but got {digest}. Delete the file, or supply another copy."
        )
    return arrays, digest


def fetch() -> Path:
    """Download MNIST by its usual loader, and keep it as `mnist.npz` in the user's cache.

    The loader is torchvision's where that is installed, and otherwise scikit-learn's, from OpenML.

    Returns:
        The path of the file.

    Raises:
        Exception: whatever the loader raises when it fails.
    """
    folder = cache_dir()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        from torchvision.datasets import MNIST
    except ImportError:
        arrays = _from_openml()
    else:
        arrays = {}
        for part, is_train in (("train", True), ("test", False)):
            source = MNIST(str(folder), train=is_train, download=True)
            arrays[f"x_{part}"] = source.data.numpy()
            arrays[f"y_{part}"] = source.targets.numpy().astype(np.uint8)

    # Written aside and renamed, so that neither a crash nor a second process leaves half a file.
    unfinished = folder / f"unfinished-{os.getpid()}-{FILE}"
    np.savez_compressed(
        unfinished,
        x_train=arrays["x_train"],
        y_train=arrays["y_train"],
        x_test=arrays["x_test"],
        y_test=arrays["y_test"],
    )
    return unfinished.replace(folder / FILE)


def _from_openml() -> dict[str, np.ndarray]:
    from sklearn.datasets import fetch_openml

    # The parser that needs no pandas. OpenML has the training images first, both in MNIST's order.
    pixels, labels = fetch_openml(
        "mnist_784", version=1, return_X_y=True, as_frame=False, parser="liac-arff", n_retries=1
    )
    images = pixels.reshape(-1, 28, 28).astype(np.uint8)
    labels = labels.astype(np.uint8)
    train, test = slice(None, 60_000), slice(60_000, None)
    return {
        "x_train": images[train],
        "y_train": labels[train],
        "x_test": images[test],
        "y_test": labels[test],
    }


def _in_domain(pixels: np.ndarray, labels: np.ndarray, count: int) -> tuple[Tensor, Tensor]:
    first = np.flatnonzero(labels < _CLASSES)[:count]
    return _images(pixels[first]), torch.from_numpy(labels[first]).long()


def _images(pixels: np.ndarray) -> Tensor:
    return torch.from_numpy(pixels).float().div(255).unsqueeze(1)
