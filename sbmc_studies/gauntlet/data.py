"""The data sets of the gauntlet: rows to train on, rows that no network has seen, test rows.

A fifth of the rows that are not for testing is set aside before the network is trained. The split
depends on the seed wherever the data have no split of their own.
"""

from __future__ import annotations

from dataclasses import replace
from os import PathLike

import torch
from torch import Tensor

from sbmc.datasets.bundle import DataBundle, checksum
from sbmc.datasets.locate import locate
from sbmc.randomness import Stream, generator
from sbmc_studies.data import load_dataset
from sbmc_studies.data.archive import read_arrays
from sbmc_studies.gauntlet.texts import load_texts

UCI = "uci_classification.npz"
# Kinds of purposes that a seed is used for.
_SPLIT, _PERMUTED = 0, 1
# Classes of which the last is left out of training, as what is out of domain.
_LEFT_OUT_FROM = 3
_FEATURE_ROWS, _OOD_ROWS, _MNIST_TEST = 5_000, 1_500, 3_000
_OTHER_DIGITS = 5_000  # the last of MNIST, which MNIST7 does not reach


def load_pair_data(
    name: str, seed: int = 0, data_dir: str | PathLike[str] | None = None
) -> DataBundle:
    """Load a data set of the gauntlet.

    Args:
        name: as the list of pairs has it.
        seed: decides the split, and what is out of domain where that is drawn at random.
        data_dir: where to look first for files.

    Returns:
        Training, validation and test rows, and groups out of domain.

    Raises:
        DataNotFound: a file is missing; the message says where it was looked for.
    """
    return _without_seen_rows(_load(name, seed, data_dir))


def _load(name: str, seed: int, data_dir: str | PathLike[str] | None) -> DataBundle:
    if name == "digits":
        return load_dataset("digits", data_dir, seed)
    if name == "mnist":
        data = _first_rows(load_dataset("mnist7", data_dir, seed), seed, test=_MNIST_TEST)
        digits = {group: data.ood[group] for group in ("8", "9")}
        return replace(data, ood=digits, frozen=_other_digits(data_dir, data.classes))
    if name in ("imdb", "cifar10"):
        return _scaled(_first_rows(load_dataset(name, data_dir, seed), seed))
    if name in ("imdb_texts", "reviews"):
        return load_texts(name, seed, data_dir)
    return _table(name, seed, data_dir)


def _without_seen_rows(data: DataBundle) -> DataBundle:
    """Leave out validation rows whose inputs are in the training rows too: IMDb repeats reviews."""
    inputs, labels = data.validation
    known = {row.tobytes() for row in data.train[0].flatten(1).numpy()}
    unseen = torch.tensor([row.tobytes() not in known for row in inputs.flatten(1).numpy()])
    return replace(data, validation=(inputs[unseen], labels[unseen]))


def _table(name: str, seed: int, data_dir: str | PathLike[str] | None) -> DataBundle:
    """One of the sets of the UCI repository, standardised by its training rows."""
    path = locate(UCI, data_dir, about="Small classification sets of the UCI repository.")
    arrays = read_arrays(path, [f"{name}__X", f"{name}__y"])
    inputs = torch.from_numpy(arrays[f"{name}__X"]).float()
    labels = torch.from_numpy(arrays[f"{name}__y"]).long()
    classes = int(labels.max()) + 1
    outside = torch.zeros(len(labels), dtype=torch.bool)
    if classes >= _LEFT_OUT_FROM:
        classes -= 1
        outside = labels == classes
    inside = torch.nonzero(~outside).flatten()
    order = inside[torch.randperm(len(inside), generator=_rng(seed, _SPLIT))]
    tests, validations = round(0.3 * len(order)), round(0.14 * len(order))
    test, validation, train = order.split([tests, validations, len(order) - tests - validations])
    mean, spread = inputs[train].mean(0), inputs[train].std(0)
    inputs = (inputs - mean) / torch.where(spread > 0, spread, torch.ones_like(spread))
    if bool(outside.any()):
        ood = {"left out": inputs[outside]}
    else:
        ood = {"permuted": _permuted(inputs[train], len(test), _rng(seed, _PERMUTED))}
    return DataBundle(
        name=name,
        checksum=checksum(arrays),
        classes=classes,
        train=(inputs[train], labels[train]),
        validation=(inputs[validation], labels[validation]),
        test=(inputs[test], labels[test]),
        ood=ood,
    )


def _permuted(inputs: Tensor, rows: int, rng: torch.Generator) -> Tensor:
    """Rows whose columns come from different examples: each column as in training, no relation."""
    index = torch.randint(len(inputs), (rows, inputs.shape[1]), generator=rng)
    return inputs.gather(0, index)


def _first_rows(data: DataBundle, seed: int, test: int = _FEATURE_ROWS) -> DataBundle:
    """The first rows of a large data set, of which a fifth validates."""
    inputs, labels = data.train_and_validation
    inputs, labels = inputs[:_FEATURE_ROWS], labels[:_FEATURE_ROWS]
    order = torch.randperm(len(labels), generator=_rng(seed, _SPLIT))
    train, validation = order[len(order) // 5 :], order[: len(order) // 5]
    # A plain bundle, whatever the kind of the one that was loaded.
    return DataBundle(
        name=data.name,
        checksum=data.checksum,
        classes=data.classes,
        train=(inputs[train], labels[train]),
        validation=(inputs[validation], labels[validation]),
        test=(data.test[0][:test], data.test[1][:test]),
        ood={group: rows[:_OOD_ROWS] for group, rows in data.ood.items()},
    )


def _other_digits(data_dir: str | PathLike[str] | None, classes: int) -> dict[str, Tensor]:
    """Images that are in no other part, for a network that is to be adapted."""
    arrays = read_arrays(locate("mnist.npz", data_dir), ["x_train", "y_train"])
    labels = torch.from_numpy(arrays["y_train"][-_OTHER_DIGITS * 2 :]).long()
    images = torch.from_numpy(arrays["x_train"][-_OTHER_DIGITS * 2 :]).float().div(255)
    inside = torch.nonzero(labels < classes).flatten()[:_OTHER_DIGITS]
    return {"other_inputs": images[inside].unsqueeze(1), "other_labels": labels[inside]}


def _scaled(data: DataBundle) -> DataBundle:
    """Features of a frozen network, in units of their root mean square."""
    unit = data.train[0].square().mean().sqrt()
    return replace(
        data,
        train=(data.train[0] / unit, data.train[1]),
        validation=(data.validation[0] / unit, data.validation[1]),
        test=(data.test[0] / unit, data.test[1]),
        ood={group: rows / unit for group, rows in data.ood.items()},
    )


def _rng(seed: int, purpose: int) -> torch.Generator:
    return generator(seed, Stream.SPLIT, purpose)
