"""The class of data sets, and the digits, which need no file."""

from __future__ import annotations

from os import PathLike

from sbmc.checks import require_choice
from sbmc.datasets import digits
from sbmc.datasets.bundle import DataBundle
from sbmc.datasets.in_place import rows_in_place
from sbmc.datasets.locate import DataNotFound
from sbmc.datasets.sharded_files import ShardedFiles

__all__ = [
    "DATASETS",
    "DataBundle",
    "DataNotFound",
    "ShardedFiles",
    "load_dataset",
    "rows_in_place",
]

DATASETS: dict[str, str] = {"digits": digits.DESCRIPTION}
"""The name of each data set, and a line about it."""


def load_dataset(
    name: str = "digits", data_dir: str | PathLike[str] | None = None, seed: int = 0
) -> DataBundle:
    """Load an embedded data set, its splits made and its checksum verified.

    Args:
        name: a key of `DATASETS`. The studies have more: `sbmc_studies.data.load_dataset`.
        data_dir: where to look first for data files; embedded data sets need none.
        seed: of the out-of-domain groups that are drawn at random. Nothing else depends on it.

    Returns:
        The data set.

    Raises:
        BadInput: if there is no such data set.

    Examples:
        >>> data = load_dataset("digits")
        >>> data.train[0].shape, list(data.ood)
        (torch.Size([800, 1, 8, 8]), ['8', '9', 'white_noise', 'perturbed'])
    """
    require_choice("name", name, DATASETS)
    return digits.load(data_dir, seed)
