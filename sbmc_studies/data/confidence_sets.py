"""The sets for the confidence meta-classifier, by data set and protocol; how images are dealt."""

from __future__ import annotations

from os import PathLike

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import BadInput, nearest, require
from sbmc.confidence.protocols import (
    PARTS,
    PROTOCOLS,
    ConfidenceSet,
    PartIndices,
    Pool,
    Pools,
    check_protocol,
    clean_parts,
    paper_parts,
)
from sbmc.datasets import digits
from sbmc.datasets.bundle import checksum
from sbmc.datasets.locate import locate
from sbmc.randomness import Stream, generator
from sbmc_studies.data import confidence_features, mnist7

CLASSES = 8
NOISE_SD = 0.5  # as for the out-of-domain groups of the data sets

# Random streams, different from the two that the data sets draw their groups from.
_WHITE_NOISE, _PERTURBED = 2, 3


def confidence_sets(
    name: str,
    protocol: str,
    data_dir: str | PathLike[str] | None = None,
    seed: int = 0,
) -> dict[str, ConfidenceSet]:
    """Make the sets of one protocol.

    Args:
        name: `"mnist7"`, `"digits"`, `"imdb"` or `"cifar10"`.
        protocol: `"paper"` or `"clean"`; see `sbmc.confidence.protocols`.
        data_dir: where to look first for data files.
        seed: of white noise and perturbations; every part and protocol has other streams.

    Returns:
        The sets by name: those of `PARTS`, of which the paper's protocol has no `calibration`.

    Raises:
        BadInput: another name or protocol.
        DataNotFound: if the data are nowhere.

    Examples:
        >>> sets = confidence_sets("digits", "clean")
        >>> {part: len(each.labels) for part, each in sets.items()}
        {'meta_train': 88, 'threshold': 88, 'calibration': 88, 'test': 88}
    """
    check_protocol(protocol)
    sources = {"mnist7": _mnist_source, "digits": _digits_source}
    if name in confidence_features.SOURCES:
        return confidence_features.feature_sets(name, protocol, data_dir)
    if name not in sources:
        choices = (*sources, *confidence_features.SOURCES)
        known = ", ".join(repr(choice) for choice in choices)
        raise BadInput(f"`name` must be one of {known}, but got {name!r}.{nearest(name, choices)}")
    images, labels = sources[name](data_dir)
    parts = _INDICES[name](protocol, labels)
    return {
        part: _materialised(images, labels, chosen, (seed, PROTOCOLS.index(protocol), part))
        for part, chosen in parts.items()
    }


def mnist7_indices(protocol: str, labels: np.ndarray) -> dict[str, PartIndices]:
    """The parts for MNIST7.

    The first 1,200 training images of 0 to 7 are what the model was fitted to. Sets have 2,000
    in-domain images and 500 of each out-of-domain group; the calibration set has twice as many,
    since it is split at random again and again.

    Args:
        protocol: `"paper"` or `"clean"`.
        labels: `(70000,)`, of the 60,000 training images and then of the 10,000 test images.

    Returns:
        The parts by name, as positions in `labels`.
    """
    check_protocol(protocol)
    train, test = np.arange(60_000), np.arange(60_000, len(labels))
    inside = train[labels[train] < CLASSES]
    seen, unseen = inside[:1200], _pools(labels, train, inside[1200:])
    final = _pools(labels, test, test[labels[test] < CLASSES])
    if protocol == "paper":
        return paper_parts(seen, unseen, final, inside=2000, group=500, meta_group=500)
    sizes = dict.fromkeys(PARTS, 2000) | {"calibration": 4000}
    groups = {part: size // 4 for part, size in sizes.items()}
    return clean_parts(unseen, final, inside=sizes, group=groups)


def digits_indices(protocol: str, labels: np.ndarray) -> dict[str, PartIndices]:
    """The parts for the 8×8 digits: the same in small.

    The model was fitted to the first 1,000 digits of 0 to 7. Those after them, and the 8s and 9s,
    are dealt out by turns, since the file goes from writer to writer: one in four for the test.

    Args:
        protocol: `"paper"` or `"clean"`.
        labels: `(1797,)`, in the order of the file.

    Returns:
        The parts by name, as positions in `labels`.
    """
    check_protocol(protocol)
    everything = np.arange(len(labels))
    inside = everything[labels < CLASSES]
    dealt = [_every_fourth(labels, inside[1000:], turn) for turn in range(4)]
    unseen = np.concatenate(dealt[:3])
    pools, final = _pools(labels, unseen), _pools(labels, dealt[3])
    if protocol == "paper":
        sizes = {"inside": 100, "group": 25, "meta_group": 100}
        return paper_parts(inside[:1000], pools, final, **sizes)
    clean, group = dict.fromkeys(PARTS, 88), dict.fromkeys(PARTS, 22)
    return clean_parts(pools, final, inside=clean, group=group)


_INDICES = {"mnist7": mnist7_indices, "digits": digits_indices}


def _every_fourth(labels: np.ndarray, inside: np.ndarray, turn: int) -> np.ndarray:
    outside = [np.flatnonzero(labels == digit)[turn::4] for digit in (8, 9)]
    return np.concatenate([inside[turn::4], *outside])


def _pools(labels: np.ndarray, chosen: np.ndarray, inside: np.ndarray | None = None) -> Pools:
    if inside is None:
        inside = chosen[labels[chosen] < CLASSES]
    outside = {str(digit): Pool(f"{digit}s", chosen[labels[chosen] == digit]) for digit in (8, 9)}
    return Pools(Pool("in-domain images", inside), outside)


def _materialised(
    images: Tensor, labels: np.ndarray, part: PartIndices, stream: tuple[int, int, str]
) -> ConfidenceSet:
    seed, *path = stream[0], stream[1], PARTS.index(stream[2])

    def rng(kind: int) -> torch.Generator:
        return generator(seed, Stream.OUT_OF_DOMAIN, kind, *path)

    shape = (part.white_noise, *images.shape[1:])
    sources = _float(images[part.perturbed])
    noise = torch.randn(sources.shape, generator=rng(_PERTURBED))
    return ConfidenceSet(
        inputs=_float(images[part.inside]),
        labels=torch.from_numpy(labels[part.inside]).long(),
        ood={
            **{digit: _float(images[chosen]) for digit, chosen in part.outside.items()},
            "white_noise": torch.rand(shape, generator=rng(_WHITE_NOISE)),
            "perturbed": sources + NOISE_SD * noise,
        },
    )


def _float(images: Tensor) -> Tensor:
    return images.float() / (255 if images.dtype == torch.uint8 else 1)


def _mnist_source(data_dir: str | PathLike[str] | None) -> tuple[Tensor, np.ndarray]:
    arrays, _ = mnist7.read(locate(mnist7.FILE, data_dir, fetch=mnist7.fetch))
    pixels = np.concatenate([arrays["x_train"], arrays["x_test"]])
    labels = np.concatenate([arrays["y_train"], arrays["y_test"]])
    # Bytes until they are chosen: as floats, all 70,000 images would take 220 MB.
    return torch.from_numpy(pixels).unsqueeze(1), labels


def _digits_source(data_dir: str | PathLike[str] | None) -> tuple[Tensor, np.ndarray]:
    from sklearn.datasets import load_digits

    source = load_digits()
    pixels, labels = source.images.astype(np.uint8), source.target.astype(np.uint8)
    digest = checksum({"images": pixels, "labels": labels})
    require(digest == digits.SHA256, "digits", f"those of SHA-256 {digits.SHA256}", digest)
    return torch.from_numpy(pixels).float().div(16).unsqueeze(1), labels
