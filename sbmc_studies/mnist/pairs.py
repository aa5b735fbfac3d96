"""The list of the study, `pairs.toml`, and its data: which images, which digits are left out."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
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
CLAIMS, DEVELOPMENT = "claims", "development"
DIGITS = 10


@cache
def _content() -> Mapping[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("pairs.toml").read_text("utf-8"))


def mnist_seeds(part: str = CLAIMS) -> tuple[int, ...]:
    """The seeds that every pair is run with."""
    return tuple(range(len(_content()["parts"][part]["left_out"])))


def mnist_pairs(part: str = CLAIMS) -> list[Pair]:
    """The pairs of network and data of a part, by which claims are made or settings chosen.

    Examples:
        >>> [pair.name for pair in mnist_pairs()]
        ['lenet5', 'resnet8']
        >>> [pair.name for pair in mnist_pairs("development")]
        ['lenet5-development', 'resnet8-development']
    """
    suffix = "" if part == CLAIMS else f"-{part}"
    names = [(each["name"] + suffix, each) for each in _content()["pairs"]]
    return [Pair(name, part, name, each["network"], each["training"]) for name, each in names]


def get_mnist_pair(name: str) -> Pair:
    """The pair of that name, of either part.

    Raises:
        BadInput: there is none; the message has the nearest name.
    """
    pairs = {pair.name: pair for part in (CLAIMS, DEVELOPMENT) for pair in mnist_pairs(part)}
    if name not in pairs:
        raise BadInput(
            f"`pairs` must be among {', '.join(pairs)}, but got {name!r}.{nearest(name, pairs)}"
        )
    return pairs[name]


def load_mnist(name: str, seed: int = 0, data_dir: str | PathLike[str] | None = None) -> DataBundle:
    """The images of a pair: to train on, set aside, to test, and out of domain.

    Args:
        name: of the pair.
        seed: decides which images are set aside, and in the development part which digits are left
            out.
        data_dir: where to look first for `mnist.npz`.

    Returns:
        Pixels in [0, 1], `(n, 1, 28, 28)`; labels are numbered without the digits left out. Test
        images and those out of domain are all that MNIST's test part has, or in the development
        part the last training images, which no network of it has seen.

    Raises:
        DataNotFound: there is no `mnist.npz`; the message says where it was looked for.
    """
    part = get_mnist_pair(name).part
    settings = _content()["parts"][part]
    images = next(
        each["images"][part]
        for each in _content()["pairs"]
        if each["name"] == name.removesuffix(f"-{part}")
    )
    left_out = settings["left_out"][seed % len(settings["left_out"])]
    arrays, digest = mnist7.read(locate(mnist7.FILE, data_dir, fetch=mnist7.fetch))
    if part == CLAIMS:
        test = arrays["x_test"], arrays["y_test"]
    else:
        test = arrays["x_train"][-settings["test"] :], arrays["y_train"][-settings["test"] :]
    inputs, labels = _in_domain(arrays["x_train"][:images], arrays["y_train"][:images], left_out)
    order = torch.randperm(len(labels), generator=generator(seed, Stream.SPLIT))
    count = round(_content()["aside"] * len(order))
    aside, train = order[:count], order[count:]
    return DataBundle(
        name=name,
        checksum=digest,
        classes=DIGITS - len(left_out),
        train=(inputs[train], labels[train]),
        validation=(inputs[aside], labels[aside]),
        test=_in_domain(*test, left_out),
        ood={str(digit): _pixels(test[0][test[1] == digit]) for digit in left_out},
    )


def _in_domain(
    images: np.ndarray, digits: np.ndarray, left_out: Sequence[int]
) -> tuple[Tensor, Tensor]:
    known = [digit for digit in range(DIGITS) if digit not in left_out]
    inside = np.isin(digits, known)
    labels = np.searchsorted(known, digits[inside])
    return _pixels(images[inside]), torch.from_numpy(labels).long()


def _pixels(images: np.ndarray) -> Tensor:
    return torch.from_numpy(images).float().div(255).unsqueeze(1)
