"""The rows that a posterior is most and least sure about, as pictures or as text."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sbmc.prediction.prediction import Prediction
from sbmc.report.cards import Card, render_cards
from sbmc.report.limits import Limits
from sbmc.report.markup import Html, cut, el, join
from sbmc.report.numbers import percent, short
from sbmc.report.posterior_view import PosteriorView

# Characters of a row or a name.
MOST_TEXT, MOST_NAME = 240, 60


def extremes(view: PosteriorView, most: int) -> tuple[list[int], list[int]]:
    """The numbers of the rows of least and of most epistemic uncertainty.

    Args:
        view: with predictions.
        most: rows of each kind.

    Returns:
        The surest rows, for classes one of each label in turn; and the least sure, the worst first.
    """
    order = torch.argsort(view.epistemic, stable=True).tolist()
    if not isinstance(view.prediction, Prediction):
        return order[:most], order[::-1][:most]
    turns: dict[int, int] = {}
    ranked = []
    for place, row in enumerate(order):
        label = int(view.prediction.labels[row])
        ranked.append((turns.get(label, 0), place, row))
        turns[label] = turns.get(label, 0) + 1
    return [row for *_, row in sorted(ranked)[:most]], order[::-1][:most]


def examples(view: PosteriorView, limits: Limits) -> Html:
    """Both rows of cards."""
    sure, unsure = extremes(view, limits.examples)
    kind = "entropy" if isinstance(view.prediction, Prediction) else "variance"
    intro = (
        f"By epistemic {kind}: what the particles disagree about. "
        "Rows that they agree about are like those of training; the others deserve a look."
    )
    return join(
        [
            el("p", intro),
            el("h4", "Most sure"),
            render_cards([_card(view, row) for row in sure], "certain"),
            el("h4", "Least sure"),
            render_cards([_card(view, row) for row in unsure], "uncertain"),
        ]
    )


def _card(view: PosteriorView, row: int) -> Card:
    prediction, targets = view.prediction, view.targets
    name = f"{view.rows.named_by} {cut(view.rows.names[row], MOST_NAME)}"
    right = None
    if isinstance(prediction, Prediction):
        top = torch.topk(prediction.probs[row], min(2, prediction.probs.shape[1]))
        pairs = zip(top.values.tolist(), top.indices.tolist(), strict=True)
        shown = [(p, label) for p, label in pairs if p >= 0.005]
        verdict = ", ".join(
            f"“{cut(view.label(label), MOST_NAME)}” {percent(p, 0)}" for p, label in shown
        )
        measure = f"epistemic {_small(float(prediction.epistemic[row]))} nats"
        truth = name
        if targets is not None:
            truth = cut(view.label(int(targets[row])), MOST_NAME)
            right = int(prediction.labels[row]) == int(targets[row])
    else:
        mean = prediction.mean[row].flatten()
        deviation = prediction.variance[row].flatten().sqrt()
        pairs = zip(mean.tolist(), deviation.tolist(), strict=True)
        verdict = ", ".join(f"{short(m, 4)} ± {short(d, 2)}" for m, d in pairs)
        measure = f"epistemic {short(float(view.epistemic[row]), 2)}"
        truth = name
        if targets is not None:
            truth = ", ".join(short(each, 4) for each in targets[row].flatten().tolist())
    measure += f" · {name}" if targets is not None else ""
    text = None if view.rows.describe is None else cut(view.rows.describe(row), MOST_TEXT)
    return Card(truth, verdict, measure, right, picture_of(view.rows.inputs[row]), text)


def picture_of(values: Tensor) -> np.ndarray | None:
    """An input as a picture, if it looks like one.

    Args:
        values: of one row.

    Returns:
        `(height, width)` of `(height, width)` or `(1, height, width)`, and `(height, width, 3)` of
        `(3, height, width)`, scaled to [0, 1] if they are not in it; None for other shapes.

    Examples:
        >>> picture_of(torch.zeros(3, 8, 9)).shape, picture_of(torch.zeros(7))
        ((8, 9, 3), None)
    """
    shape = tuple(values.shape)
    flat = len(shape) == 3 and shape[0] == 1
    if len(shape) not in (2, 3) or (len(shape) == 3 and shape[0] not in (1, 3)):
        return None
    if min(shape[-2:]) < 4:  # a sequence of a few numbers is no picture
        return None
    image = values.double().cpu().numpy()
    image = image[0] if flat else image if image.ndim == 2 else image.transpose(1, 2, 0)
    low, high = float(image.min()), float(image.max())
    if low < 0 or high > 1:
        image = (image - low) / ((high - low) or 1.0)
    return image


def _small(entropy: float) -> str:
    return "< 0.001" if entropy < 0.001 else short(entropy, 2)
