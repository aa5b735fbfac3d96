"""The images that the meta-classifier is trained on, and those that it is tested on.

**What the paper states** (section 3, appendices `app:mnist` and `app:ood`). The model is fitted to
1,000 training and 200 validation images; its incorrect predictions are labelled z = 1, its correct
ones z = 0. Another 2,000 out-of-domain inputs "generated as described" have z = 1: 500 each of 8s,
of 9s, of white noise and of in-domain images with noise. The result is tested on the first 2,000
in-domain test images and 2,000 newly generated out-of-domain inputs (the first 8s and 9s of the
test images, the first in-domain test images with noise), where in-domain correct counts as 0 and
all else as 1. The F1-optimal threshold is chosen "on a held-out set".

**What it leaves open, and what is done here under the name `paper`.**

- In-domain meta-training data: the 1,200 images themselves, which the sentence says, although the
  model is more confident of them than of others.
- Out-of-domain meta-training data must differ from the "newly generated" test data, but MNIST has
  only 974 test 8s: they come from the training images, the first 500 8s and 9s and the first 500
  in-domain images with noise.
- The held-out set of the threshold is as large and as mixed as the test set, and made of training
  images that neither the sampler nor the meta-classifier has seen.

**The protocol `clean`.** Meta-training, threshold, calibration and test are four sets without a
source image in common; images with noise added have no clean copy anywhere; in-domain images of all
four are unknown to anchor and sampler; and the test images of the data set are used for the test
alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from sbmc.checks import Phrase, require, require_choice
from sbmc.storage.arrays import as_tensor

PROTOCOLS = ("paper", "clean")
PARTS = ("meta_train", "threshold", "calibration", "test")
GROUPS = ("8", "9", "white_noise", "perturbed")


@dataclass(frozen=True, eq=False)
class ConfidenceSet:
    """In-domain examples with labels, and out-of-domain inputs by group.

    Attributes:
        inputs: `(examples, ...)`, in domain.
        labels: `(examples,)`.
        ood: out-of-domain inputs of each group.
    """

    inputs: Tensor
    labels: Tensor
    ood: Mapping[str, Tensor]

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", as_tensor(self.inputs, "inputs"))
        object.__setattr__(self, "labels", as_tensor(self.labels, "labels"))
        rule = "a dict of inputs by the names of their groups"
        require(isinstance(self.ood, Mapping), "ood", rule, self.ood)
        groups = {name: as_tensor(group, f"ood[{name!r}]") for name, group in self.ood.items()}
        object.__setattr__(self, "ood", groups)


@dataclass(frozen=True, eq=False)
class PartIndices:
    """Where the images of one part come from, as positions in the source.

    Attributes:
        inside: in-domain images.
        outside: images of each out-of-domain class, by name.
        perturbed: in-domain images to which noise is added.
        white_noise: how many images of white noise there are; they have no source.
    """

    inside: np.ndarray
    outside: dict[str, np.ndarray]
    perturbed: np.ndarray
    white_noise: int

    def sources(self) -> set[int]:
        """Every source image that the part uses in any form."""
        parts = [self.inside, *self.outside.values(), self.perturbed]
        return set(np.concatenate(parts).tolist())


@dataclass
class Pool:
    """Source images in a fixed order, each of which is taken at most once.

    Examples:
        >>> pool = Pool("8s", np.array([4, 7, 9]))
        >>> pool.take(2).tolist(), pool.take(1).tolist()
        ([4, 7], [9])
    """

    name: str
    indices: np.ndarray
    taken: int = field(default=0)

    def take(self, count: int) -> np.ndarray:
        """The next images that have not been taken."""
        remaining = len(self.indices) - self.taken
        rule = f"at most {remaining}, which remain of the {self.name}"
        require(count <= remaining, "count", rule, count)
        self.taken += count
        return self.indices[self.taken - count : self.taken]


@dataclass
class Pools:
    """Images to draw from, without those that the model was fitted to."""

    inside: Pool
    outside: dict[str, Pool]


def paper_parts(
    seen: np.ndarray, unseen: Pools, test: Pools, *, inside: int, group: int, meta_group: int
) -> dict[str, PartIndices]:
    """The parts of the paper's protocol: meta-training on what the model was fitted to.

    Args:
        seen: in-domain images that anchor and sampler were fitted to, in order.
        unseen: images for the threshold set and for out-of-domain meta-training.
        test: images for the test.
        inside: in-domain images of threshold and test set.
        group: images of each of their out-of-domain groups.
        meta_group: the same for meta-training.

    Returns:
        `meta_train`, `threshold` and `test`. As in the paper, noise is added to the first of a
        part's own in-domain images.

    Raises:
        BadInput: if there are not enough images.
    """
    parts = {"meta_train": _with_own(seen, unseen, meta_group)}
    parts["threshold"] = _with_own(unseen.inside.take(inside), unseen, group)
    parts["test"] = _with_own(test.inside.take(inside), test, group)
    return parts


def clean_parts(
    unseen: Pools, test: Pools, *, inside: Mapping[str, int], group: Mapping[str, int]
) -> dict[str, PartIndices]:
    """The parts of the clean protocol: nothing is used twice, in any form.

    Args:
        unseen: images that neither anchor nor sampler saw, for all parts but the test.
        test: images for the test.
        inside: in-domain images of each part, by its name.
        group: images of each out-of-domain group, by part.

    Returns:
        The four `PARTS`.

    Raises:
        BadInput: if there are not enough images.
    """
    parts = {}
    for name in PARTS:
        pools = test if name == "test" else unseen
        parts[name] = PartIndices(
            inside=pools.inside.take(inside[name]),
            outside={digit: pool.take(group[name]) for digit, pool in pools.outside.items()},
            perturbed=pools.inside.take(group[name]),
            white_noise=group[name],
        )
    return parts


def check_protocol(protocol: str) -> None:
    """Refuse an unknown protocol."""
    require_choice("protocol", protocol, PROTOCOLS)


def _with_own(inside: np.ndarray, pools: Pools, group: int) -> PartIndices:
    rule = f"at least the {group} images that noise is added to"
    require(len(inside) >= group, "inside", rule, Phrase(f"{len(inside)} images"))
    outside = {digit: pool.take(group) for digit, pool in pools.outside.items()}
    return PartIndices(inside, outside, inside[:group], group)
