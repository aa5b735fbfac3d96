"""The inputs that a run is most sure and most unsure about, as images beside its record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sbmc.checks import BadInput

if TYPE_CHECKING:
    from torch import Tensor

    from sbmc.datasets import DataBundle
    from sbmc.posterior.posterior import Posterior

COUNT = 8
FILE = "examples.npz"

GROUP_LABELS = {"white_noise": "noise", "perturbed": "perturbed"}


@dataclass(frozen=True)
class Shown:
    """Inputs to show, in order, with what the ensemble says of each.

    Attributes:
        images: `(examples, height, width)`.
        truths: what each really is, as text.
        labels: what the ensemble takes it for.
        confidences: the largest probability.
        epistemics: the epistemic entropy, in nats.
    """

    images: np.ndarray
    truths: list[str]
    labels: np.ndarray
    confidences: np.ndarray
    epistemics: np.ndarray

    def __len__(self) -> int:
        return len(self.images)


def select_examples(posterior: Posterior, data: DataBundle) -> tuple[Shown, Shown]:
    """Choose what to show: the surest of each class, the least sure of each group.

    By epistemic entropy alone, all sure inputs could be of one class, and all unsure ones noise. So
    the sure row has, for each label that the ensemble gives, the input with the least epistemic
    entropy, surest first. The unsure row takes turns among the test set and the out-of-domain
    groups, and takes from each the input with the most epistemic entropy that is left.

    Args:
        posterior: the ensemble.
        data: test set and out-of-domain groups, of images with one channel.

    Returns:
        The sure inputs and the unsure ones, at most `COUNT` each.
    """
    inputs, truths = data.test
    pools = [_pool(posterior, inputs, [f"a {label}" for label in truths.tolist()])]
    for group, each in data.ood.items():
        name = GROUP_LABELS.get(group, f"a {group}" if group.isdigit() else group)
        pools.append(_pool(posterior, each, [name] * len(each)))

    everything = _join(pools)
    order = np.argsort(everything.epistemics, kind="stable")
    _, firsts = np.unique(everything.labels[order], return_index=True)
    sure = _take(everything, order[np.sort(firsts)][:COUNT])

    ranked = [np.argsort(-pool.epistemics, kind="stable") for pool in pools]
    turns = [
        (rank, index)
        for rank in range(COUNT)
        for index in range(len(pools))
        if rank < len(pools[index])
    ][:COUNT]
    chosen = _join([_take(pools[i], ranked[i][rank : rank + 1]) for rank, i in turns])
    unsure = _take(chosen, np.argsort(-chosen.epistemics, kind="stable"))
    return sure, unsure


def _pool(posterior: Posterior, inputs: Tensor, truths: list[str]) -> Shown:
    prediction: Any = posterior.predict(inputs)
    return Shown(
        images=inputs[:, 0].numpy(),
        truths=truths,
        labels=prediction.labels.numpy(),
        confidences=prediction.probs.max(-1).values.numpy(),
        epistemics=prediction.epistemic.numpy(),
    )


def _take(shown: Shown, index: np.ndarray) -> Shown:
    return Shown(
        shown.images[index],
        [shown.truths[i] for i in index],
        shown.labels[index],
        shown.confidences[index],
        shown.epistemics[index],
    )


def _join(parts: list[Shown]) -> Shown:
    return Shown(
        np.concatenate([part.images for part in parts]),
        [truth for part in parts for truth in part.truths],
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.confidences for part in parts]),
        np.concatenate([part.epistemics for part in parts]),
    )


def write_examples(folder: Path, posterior: Posterior, data: DataBundle) -> Path | None:
    """Store what the figure needs beside a record, so that it can be drawn without a new run.

    Args:
        folder: the record's folder.
        posterior: the ensemble.
        data: the data set.

    Returns:
        The file; None if the inputs are no images with one channel.
    """
    if data.test[0].ndim != 4 or data.test[0].shape[1] != 1:
        return None
    arrays: dict[str, np.ndarray] = {}
    for name, shown in zip(("sure", "unsure"), select_examples(posterior, data), strict=True):
        arrays |= {
            f"{name}_images": shown.images.astype(np.float32),
            f"{name}_truths": np.array(shown.truths),
            f"{name}_labels": shown.labels,
            f"{name}_confidences": shown.confidences,
            f"{name}_epistemics": shown.epistemics,
        }
    path = Path(folder) / FILE
    np.savez_compressed(path, allow_pickle=False, **arrays)
    return path


def read_examples(folder: Path) -> tuple[Shown, Shown]:
    """Read what `write_examples` stored.

    Args:
        folder: the record's folder.

    Returns:
        The sure inputs and the unsure ones.

    Raises:
        BadInput: if nothing is stored there.
    """
    path = Path(folder) / FILE
    if not path.exists():
        raise BadInput(f"`folder` must hold {FILE}, but got {str(folder)!r}.")
    with np.load(path, allow_pickle=False) as arrays:
        sure, unsure = (
            Shown(
                arrays[f"{name}_images"],
                arrays[f"{name}_truths"].tolist(),
                arrays[f"{name}_labels"],
                arrays[f"{name}_confidences"],
                arrays[f"{name}_epistemics"],
            )
            for name in ("sure", "unsure")
        )
    return sure, unsure
