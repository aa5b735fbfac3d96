"""The picture of the demo: inputs that the ensemble is most sure and most unsure about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sbmc.checks import BadInput
from sbmc_studies.figures.style import BLUE, VERMILION, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure
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
        truths: what each really is, in words.
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

    By epistemic entropy alone the row of sure inputs could hold one class only, and the row of
    unsure ones nothing but noise. So the sure row has, for each label that the ensemble gives, the
    input with the least epistemic entropy, surest first; the unsure row takes turns among the
    test set and the out-of-domain groups, and from each takes what has the most of it.

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
    """Store what the picture needs beside a record, so that it can be drawn without a new run.

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


def draw(sure: Shown, unsure: Shown, method: str) -> Figure:
    """Draw the two rows.

    Args:
        sure: the upper row.
        unsure: the lower row.
        method: whose opinion it is, for the title.

    Returns:
        A matplotlib figure.

    Raises:
        BadInput: if matplotlib is not installed.
    """
    columns = max(len(sure), len(unsure))
    figure = new_figure(1.45 * columns, 5.2)
    figure.suptitle(f"What {method} is sure and unsure about", fontsize=15)
    rows: Any = figure.subfigures(2, 1)
    top, bottom = rows
    _draw_row(top, sure, columns, "Most sure: for each label, the input of least H_ep", BLUE)
    title = "Most unsure: in each group, the inputs of most H_ep"
    _draw_row(bottom, unsure, columns, title, VERMILION)
    return figure


def _draw_row(figure: Any, shown: Shown, columns: int, title: str, colour: str) -> None:
    figure.suptitle(title, fontsize=12, color=colour, fontweight="bold")
    for index, axes in enumerate(figure.subplots(1, columns)):
        if index >= len(shown):
            axes.set_axis_off()
            continue
        axes.imshow(shown.images[index], cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set(color=colour, linewidth=2)
        axes.set_title(f"{shown.truths[index]}", fontsize=11)
        axes.set_xlabel(
            f"“{shown.labels[index]}”, {shown.confidences[index]:.0%}\n"
            f"H_ep {shown.epistemics[index]:.2f}",
            fontsize=10,
        )


def draw_file(folder: Path, target: Path, method: str) -> Path:
    """Draw the picture of a stored run into a PNG file.

    Args:
        folder: the record's folder.
        target: the picture's path.
        method: whose opinion it is, for the title.

    Returns:
        The picture's path.
    """
    figure = draw(*read_examples(folder), method)
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=110)
    return target
