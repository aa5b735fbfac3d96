"""scikit-learn's 8×8 handwritten digits, split as MNIST7 is. Nothing to download."""

from __future__ import annotations

from os import PathLike

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import require
from sbmc.datasets.bundle import DataBundle, checksum
from sbmc.datasets.groups import perturbed, white_noise

DESCRIPTION = "8x8 digits, 0-7 in domain, 8 and 9 outside: embedded, no download"
SHA256 = "50bcdbc62135f8bd9d00a6c9d88cff957e00a095bdd3f0971d4be5be49149e22"

_CLASSES = 8
_TRAIN, _VALIDATION = 800, 200
_GROUP_LIMIT = 500


def load(data_dir: str | PathLike[str] | None = None, seed: int = 0) -> DataBundle:
    """Load the digits.

    Pixels are divided by 16, into [0, 1]. The splits are in file order, as those of MNIST7 are: the
    first 800 digits from 0 to 7 train, the next 200 validate, the other 443 test. The file goes
    from one writer to the next, so the test digits are by other hands than the training digits,
    and logistic regression gets 91 % of them right instead of the 98 % that it gets after a
    shuffle. Nor can a change in some library's shuffling change the data.

    The out-of-domain groups are all the 8s and all the 9s (at most 500 each), as many images of
    white noise as there are 9s, and as many perturbed test digits: the groups are about equally
    large, as MNIST7's are, so none of them decides a mean over all.

    Args:
        data_dir: not used; the data come with scikit-learn.
        seed: of the white noise and of the perturbations.

    Returns:
        The data set; inputs are `(n, 1, 8, 8)` float32.

    Raises:
        BadInput: if the installed scikit-learn has other digits.
    """
    from sklearn.datasets import load_digits  # late: it takes a second

    source = load_digits()
    arrays = {
        "images": source.images.astype(np.uint8),
        "labels": source.target.astype(np.uint8),
    }
    digest = checksum(arrays)
    require(digest == SHA256, "digits", f"scikit-learn's own, of SHA-256 {SHA256}", digest)

    images = torch.from_numpy(arrays["images"]).float().div(16).unsqueeze(1)
    labels = torch.from_numpy(arrays["labels"]).long()
    inside = labels < _CLASSES
    inputs, targets = images[inside], labels[inside]

    def part(start: int, stop: int | None) -> tuple[Tensor, Tensor]:
        return inputs[start:stop].clone(), targets[start:stop].clone()

    test = part(_TRAIN + _VALIDATION, None)
    nines = images[labels == 9][:_GROUP_LIMIT]
    return DataBundle(
        name="digits",
        checksum=digest,
        classes=_CLASSES,
        train=part(0, _TRAIN),
        validation=part(_TRAIN, _TRAIN + _VALIDATION),
        test=test,
        ood={
            "8": images[labels == 8][:_GROUP_LIMIT],
            "9": nines,
            "white_noise": white_noise(len(nines), (1, 8, 8), seed),
            "perturbed": perturbed(test[0][: len(nines)], seed),
        },
    )
