"""The sets for the confidence meta-classifier where inputs are features from a file.

What differs from images that can be made at will: every training example was seen by the sampler,
and out-of-domain groups have as many examples as the file has.

- The paper gives 25,000 in domain and 5,000 of each of five groups for IMDb, 9,000 and 3,000 of
  three for CIFAR-10, for the test. Here groups are as large as the smallest allows, and as many
  examples are in domain as out of it, as in the paper: precision and F1 depend on the proportion.
- In-domain examples that the sampler has not seen are the data set's test examples, of which each
  part has its own. So `clean` has no test examples that were used for nothing else in the study:
  the study's own metrics are of all of them.
- Product descriptions and their raw JSON are the same products: the rows of one are in the same
  part as those of the other. Which of CIFAR-10's test pictures were corrupted is not known, so the
  source of a corrupted picture may be in another part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike

import numpy as np
import torch

from sbmc.checks import require
from sbmc.confidence.protocols import PARTS, ConfidenceSet, Pool, check_protocol
from sbmc.datasets.locate import locate
from sbmc.randomness import Stream, generator
from sbmc_studies.data import cifar10, imdb
from sbmc_studies.data.features import SPLIT_SEED, FeatureFile, decoded, read_features, split_order

SOURCES: dict[str, FeatureFile] = {"imdb": imdb.SOURCE, "cifar10": cifar10.SOURCE}

# Examples of each group by protocol and part: all of the smallest group. The test comes first; the
# threshold needs few, since it is one number.
SIZES: dict[str, dict[str, dict[str, int]]] = {
    "imdb": {
        "paper": {"meta_train": 150, "threshold": 85, "test": 250},
        "clean": {"meta_train": 120, "threshold": 60, "calibration": 125, "test": 180},
    },
    "cifar10": {
        "paper": {"meta_train": 800, "threshold": 300, "test": 1500},
        "clean": {"meta_train": 600, "threshold": 300, "calibration": 500, "test": 1200},
    },
}
# Groups whose rows come from the same things.
_TOGETHER = {"full_meta": "meta"}


@dataclass(frozen=True, eq=False)
class FeaturePart:
    """Where the examples of one part come from, as rows of the file's arrays.

    Attributes:
        split: `"train"`, which the sampler has seen, or `"test"`.
        inside: rows of that split.
        outside: rows of each out-of-domain group.
    """

    split: str
    inside: np.ndarray
    outside: dict[str, np.ndarray]


def feature_parts(
    protocol: str, sizes: Mapping[str, int], train: int, test: int, groups: Mapping[str, int]
) -> dict[str, FeaturePart]:
    """Divide the rows of a file of features among the parts of a protocol.

    Args:
        protocol: `"paper"`, whose meta-training is on what the model was fitted to, or `"clean"`.
        sizes: examples of each out-of-domain group, by part.
        train: how many training examples there are.
        test: how many test examples.
        groups: how many examples each out-of-domain group has.

    Returns:
        The parts by name. No row is in two of them, and rows that stand for the same thing in two
        groups are in the same part.

    Raises:
        BadInput: another protocol, or not enough examples.
    """
    check_protocol(protocol)
    seen = Pool("training examples", split_order(train))
    unseen = Pool("test examples", np.arange(test))
    order = {group: _shuffled(group, groups) for group in groups}
    outside = {group: Pool(f"group {group}", rows) for group, rows in order.items()}
    parts = {}
    for name in [part for part in PARTS if part in sizes]:
        fitted = protocol == "paper" and name == "meta_train"
        parts[name] = FeaturePart(
            split="train" if fitted else "test",
            inside=(seen if fitted else unseen).take(len(groups) * sizes[name]),
            outside={group: pool.take(sizes[name]) for group, pool in outside.items()},
        )
    return parts


def feature_sets(
    name: str, protocol: str, data_dir: str | PathLike[str] | None = None
) -> dict[str, ConfidenceSet]:
    """Make the sets of one protocol from a file of features.

    Args:
        name: a key of `SOURCES`.
        protocol: `"paper"` or `"clean"`.
        data_dir: where to look first for the file.

    Returns:
        The sets by name.

    Raises:
        BadInput: another name or protocol, or groups that are too small.
        DataNotFound: if the file is nowhere.
    """
    check_protocol(protocol)
    require(name in SOURCES, "name", f"one of {', '.join(SOURCES)}", name)
    source = SOURCES[name]
    arrays, _ = read_features(source, locate(source.file, data_dir, about=source.about))
    groups = {group: len(arrays[f"ood_{group}"]) for group in source.groups}
    counts = len(arrays["x_train"]), len(arrays["x_test"])
    parts = feature_parts(protocol, SIZES[name][protocol], *counts, groups)
    return {
        part: ConfidenceSet(
            inputs=decoded(source, arrays, f"x_{each.split}", each.inside),
            labels=torch.from_numpy(arrays[f"y_{each.split}"][each.inside].astype(np.int64)),
            ood={
                group: decoded(source, arrays, f"ood_{group}", rows)
                for group, rows in each.outside.items()
            },
        )
        for part, each in parts.items()
    }


def _shuffled(group: str, groups: Mapping[str, int]) -> np.ndarray:
    # A stream for each kind of thing, after the one that splits the training examples.
    kind = _TOGETHER.get(group, group)
    rng = generator(SPLIT_SEED, Stream.SPLIT, 1 + list(groups).index(kind))
    return torch.randperm(groups[group], generator=rng).numpy()
