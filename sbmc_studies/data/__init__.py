"""The data sets of the studies by name, with their splits and out-of-domain groups."""

from __future__ import annotations

from os import PathLike

from sbmc.checks import BadInput, nearest
from sbmc.datasets import digits
from sbmc.datasets.bundle import DataBundle
from sbmc.datasets.locate import DataNotFound
from sbmc_studies.data import cifar10, imdb, mnist7, shakespeare

__all__ = ["DATASETS", "DataBundle", "DataNotFound", "load_dataset"]

_MODULES = {
    "digits": digits,
    "mnist7": mnist7,
    "imdb": imdb,
    "cifar10": cifar10,
    "shakespeare": shakespeare,
}

DATASETS: dict[str, str] = {name: module.DESCRIPTION for name, module in _MODULES.items()}
"""What there is: the name of each data set and a line about it."""


def load_dataset(
    name: str, data_dir: str | PathLike[str] | None = None, seed: int = 0
) -> DataBundle:
    """Load a data set, its splits made and its checksum verified.

    Args:
        name: a key of `DATASETS`.
        data_dir: where to look first for data files; then come `$SBMC_DATA` and the user's cache,
            and then the file is fetched. Embedded data sets need no file.
        seed: of the out-of-domain groups that are drawn at random. Nothing else depends on it.

    Returns:
        The data set.

    Raises:
        BadInput: if there is no such data set, or its file does not have the expected content.
        DataNotFound: if its file is nowhere, and could not be fetched.

    Examples:
        >>> data = load_dataset("digits")
        >>> data.train[0].shape, list(data.ood)
        (torch.Size([800, 1, 8, 8]), ['8', '9', 'white_noise', 'perturbed'])
    """
    if name not in _MODULES:
        known = ", ".join(repr(choice) for choice in DATASETS)
        hint = nearest(name, DATASETS)
        raise BadInput(f"`name` must be one of {known}, but got {name!r}.{hint}")
    return _MODULES[name].load(data_dir, seed)
