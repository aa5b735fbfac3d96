"""The list of the study, `pairs.toml`, and its data: which images, which digits are left out."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import BadInput, nearest
from sbmc.datasets.bundle import DataBundle
from sbmc.datasets.locate import locate
from sbmc.randomness import Stream, generator
from sbmc_studies.data import mnist7
from sbmc_studies.gauntlet.pairs import Pair

STUDY = "mnist"
DIGITS = 10


@cache
def _content() -> Mapping[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("pairs.toml").read_text("utf-8"))


def mnist_seeds() -> tuple[int, ...]:
    """The seeds that every pair is run with."""
    return tuple(_content()["seeds"])


def mnist_pairs() -> list[Pair]:
    """The pairs of network and data.

    Examples:
        >>> [pair.name for pair in mnist_pairs()]
        ['lenet5', 'resnet8']
    """
    return [
        Pair(each["name"], STUDY, each["name"], each["network"], each["training"])
        for each in _content()["pairs"]
    ]


def get_mnist_pair(name: str) -> Pair:
    """The pair of that name.

    Raises:
        BadInput: there is none; the message has the nearest name.
    """
    pairs = {pair.name: pair for pair in mnist_pairs()}
    if name not in pairs:
        raise BadInput(
            f"`pairs` must be among {', '.join(pairs)}, but got {name!r}.{nearest(name, pairs)}"
        )
    return pairs[name]


def load_mnist(name: str, seed: int = 0, data_dir: str | PathLike[str] | None = None) -> DataBundle:
    """The images of a pair: to train on, set aside, to test, and out of domain.

    Args:
        name: of the pair.
        seed: decides which images are set aside.
        data_dir: where to look first for `mnist.npz`.

    Returns:
        Pixels in [0, 1], `(n, 1, 28, 28)`; labels are numbered without the digits left out. Test
        images and those out of domain are all that MNIST's test part has.

    Raises:
        DataNotFound: there is no `mnist.npz`; the message says where it was looked for.
    """
    content = _content()
    images = next(each["images"] for each in content["pairs"] if each["name"] == name)
    arrays, digest = mnist7.read(locate(mnist7.FILE, data_dir, fetch=mnist7.fetch))
    inputs, labels = _in_domain(arrays["x_train"][:images], arrays["y_train"][:images])
    order = torch.randperm(len(labels), generator=generator(seed, Stream.SPLIT))
    count = round(content["aside"] * len(order))
    aside, train = order[:count], order[count:]
    outside = {
        str(digit): _pixels(arrays["x_test"][arrays["y_test"] == digit])
        for digit in content["left_out"]
    }
    return DataBundle(
        name=name,
        checksum=digest,
        classes=DIGITS - len(content["left_out"]),
        train=(inputs[train], labels[train]),
        validation=(inputs[aside], labels[aside]),
        test=_in_domain(arrays["x_test"], arrays["y_test"]),
        ood=outside,
    )


def _in_domain(images: np.ndarray, digits: np.ndarray) -> tuple[Tensor, Tensor]:
    known = [digit for digit in range(DIGITS) if digit not in _content()["left_out"]]
    inside = np.isin(digits, known)
    labels = np.searchsorted(known, digits[inside])
    return _pixels(images[inside]), torch.from_numpy(labels).long()


def _pixels(images: np.ndarray) -> Tensor:
    return torch.from_numpy(images).float().div(255).unsqueeze(1)
