"""How good predictions of classes are: accuracy, NLL, Brier score, calibration, entropies.

A prediction may be given, or its probabilities as a tensor, an array or a list. Results are plain
floats, computed in float64. Values that are not probabilities are refused, and never taken for
logits. Where examples have several labels, a prediction counts all of them alike. A weight of 2 is
that example twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from sbmc.checks import require, require_count
from sbmc.prediction.metrics.weighting import as_weights, weighted_mean
from sbmc.prediction.prediction import Prediction
from sbmc.prediction.regression import RegressionPrediction
from sbmc.storage.arrays import as_tensor

_KINDS = ("total", "aleatoric", "epistemic")
# Examples whose differences from the labels are held at a time.
_PIECE = 4096
# Rounding of float32 over a thousand classes stays well inside.
_SUM_WITHIN = 1e-3


def accuracy(probs: Any, labels: Any, *, weights: Any = None) -> float:
    """Fraction of examples whose most probable class is the label.

    Args:
        probs: `(examples, classes)`, or a prediction.
        labels: `(examples,)` integers from 0.
        weights: `(examples,)`, not negative; all 1 if not given.

    Returns:
        A fraction (not per cent).

    Raises:
        BadInput: if `probs` are not probabilities, or `labels` or `weights` do not fit them.

    Examples:
        >>> accuracy([[0.9, 0.1], [0.8, 0.2]], [0, 1])
        0.5
    """
    probs, labels, weights = _checked(probs, labels, weights)
    return weighted_mean((probs.argmax(dim=-1) == labels).double(), weights)


def nll(probs: Any, labels: Any, *, weights: Any = None) -> float:
    """Mean negative log probability of the label, in nats: −1/n Σ log p(y_n|x_n).

    For a prediction of numbers it is that of the mixture's density. (`gaussian_nll` is that of a
    Gaussian with the same mean and variance.)

    A probability of exactly zero counts as the smallest normal float64, which costs 708 nats: one
    impossible label is then unmistakable, and yet does not make all runs look alike.

    Args:
        probs: `(examples, classes)`, or a prediction of classes or numbers.
        labels: `(examples,)` integers from 0; for numbers, the targets.
        weights: as for `accuracy`.

    Returns:
        The mean; for classes, 0 is perfect.

    Raises:
        BadInput: as for `accuracy`.

    Examples:
        >>> round(nll([[0.5, 0.5], [0.25, 0.75]], [0, 1]), 4)
        0.4904
    """
    if isinstance(probs, RegressionPrediction):
        return -weighted_mean(probs.log_prob(labels), weights)
    probs, labels, weights = _checked(probs, labels, weights)
    label_probs = probs.gather(1, labels.unsqueeze(1)).clamp(min=torch.finfo(torch.float64).tiny)
    return -weighted_mean(label_probs.log(), weights)


def brier(probs: Any, labels: Any, *, weights: Any = None) -> float:
    """Brier score, summed over classes: 1/n Σ_n Σ_y (p(y|x_n) − 1[y = y_n])².

    It runs from 0 to 2. For two classes it is twice the score of one class alone, which is what
    scikit-learn's `brier_score_loss` gives by default and what the paper has for IMDb.

    Args:
        probs: `(examples, classes)`, or a prediction.
        labels: `(examples,)` integers from 0.
        weights: as for `accuracy`.

    Returns:
        The mean over examples; 0 is perfect.

    Raises:
        BadInput: as for `accuracy`.

    Examples:
        >>> brier([[0.5, 0.5]], [0])
        0.5
    """
    probs, labels, weights = _checked(probs, labels, weights)
    each = []
    # In pieces: of many classes, both the labels and the differences are as large as `probs`.
    for some, piece_labels in zip(probs.split(_PIECE), labels.split(_PIECE), strict=True):
        truth = torch.nn.functional.one_hot(piece_labels, probs.shape[1])
        each.append((some - truth).square().sum(dim=-1))
    return weighted_mean(torch.cat(each), weights)


def ece(probs: Any, labels: Any, bins: int = 15, *, weights: Any = None) -> float:
    """Expected calibration error: Σ_b n_b/n |accuracy_b − confidence_b|.

    Confidence is the largest probability; the bins divide (0, 1] into equal widths, each with its
    upper edge (Guo et al., 2017).

    Args:
        probs: `(examples, classes)`, or a prediction.
        labels: `(examples,)` integers from 0.
        bins: how many bins.
        weights: as for `accuracy`.

    Returns:
        The weighted mean gap, from 0 to 1.

    Raises:
        BadInput: as for `accuracy`, or if `bins` is not a positive integer.

    Examples:
        >>> ece([[1.0, 0.0], [1.0, 0.0]], [0, 1])
        0.5
    """
    require_count("bins", bins)
    probs, labels, weights = _checked(probs, labels, weights)
    confidence, predicted = probs.max(dim=-1)
    # The summed gap of a bin is |Σ correct − Σ confidence|, so empty bins need no special care.
    gap = (predicted == labels).double() - confidence
    if weights is not None:
        gap = gap * weights
    inner_edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64)[1:-1]
    index = torch.bucketize(confidence, inner_edges)
    per_bin = torch.zeros(bins, dtype=torch.float64).index_add(0, index, gap)
    total = len(labels) if weights is None else weights.sum()
    return (per_bin.abs().sum() / total).item()


def classification_metrics(
    prediction: Any, labels: Any, *, weights: Any = None
) -> dict[str, float]:
    """Measure a prediction on in-domain data.

    Args:
        prediction: for the examples of `labels`; or probabilities `(examples, classes)`.
        labels: `(examples,)` integers from 0.
        weights: as for `accuracy`.

    Returns:
        `accuracy nll brier ece` and, for each of the three entropies, its mean
        `entropy.{total,aleatoric,epistemic}.{id,correct,incorrect}`: over all examples, over those
        whose most probable class is the label, and over the others. A set without examples has no
        mean: where nothing is incorrect, the keys that end in `.incorrect` are absent (not NaN).
        Plain probabilities have the total entropy alone.

    Raises:
        BadInput: if `labels` or `weights` do not fit the prediction.
    """
    probs, labels, weights = _checked(prediction, labels, weights, "prediction")
    metrics = {
        measure.__name__: measure(probs, labels, weights=weights)
        for measure in (accuracy, nll, brier, ece)
    }
    correct = probs.argmax(dim=-1) == labels
    counted = torch.ones_like(correct) if weights is None else weights > 0
    for kind, entropy in _entropies(prediction).items():
        for name, chosen in (("id", counted), ("correct", correct), ("incorrect", ~correct)):
            some = chosen & counted
            if some.any():
                own = None if weights is None else weights[some]
                metrics[f"entropy.{kind}.{name}"] = weighted_mean(entropy[some], own)
    return metrics


def ood_metrics(
    predictions: Mapping[str, Any], *, weights: Mapping[str, Any] | None = None
) -> dict[str, float]:
    """Mean entropies on out-of-domain groups.

    Args:
        predictions: the prediction for each group, or its probabilities, by the group's name.
        weights: of the examples of each group, by the same names; all 1 if not given.

    Returns:
        `entropy.{total,aleatoric,epistemic}.ood.<group>`, and `.ood.all` over the examples of all
        groups together. Groups without examples are absent. Plain probabilities have the total
        entropy alone.

    Raises:
        BadInput: if there is no group, one is called "all", or groups lack their weights.
    """
    rule = "predictions by the names of their groups"
    require(isinstance(predictions, Mapping), "predictions", rule, predictions)
    names = list(predictions)
    for name, group in predictions.items():
        if not isinstance(group, Prediction):
            probs = as_tensor(group, f"predictions[{name!r}]", numbers=True)
            require(probs.ndim == 2, "predictions", f"{rule}, or probabilities", probs)
    require(len(names) > 0, "predictions", "at least one group", names)
    require("all" not in names, "predictions", "groups of which none is called 'all'", names)
    require(weights is None or isinstance(weights, Mapping), "weights", "by group", weights)
    if weights is not None:
        require(set(weights) == set(names), "weights", f"of the groups {names}", list(weights))
    filled = {name: _entropies(group) for name, group in predictions.items() if len(group)}
    if not filled:
        return {}
    counts: dict[str, Tensor | None] = dict.fromkeys(["all", *filled])
    if weights is not None:
        sizes = {name: len(group["total"]) for name, group in filled.items()}
        own = {name: as_weights(weights[name], size) for name, size in sizes.items()}
        counts = {"all": torch.cat([each for each in own.values() if each is not None]), **own}
    metrics = {}
    for kind in _KINDS:
        if not all(kind in group for group in filled.values()):
            continue
        entropies = {name: group[kind] for name, group in filled.items()}
        entropies["all"] = torch.cat(list(entropies.values()))
        for name, entropy in entropies.items():
            metrics[f"entropy.{kind}.ood.{name}"] = weighted_mean(entropy, counts[name])
    return metrics


def _entropies(prediction: Any) -> dict[str, Tensor]:
    """Those of a prediction; of plain probabilities, which know of no particles, the total one."""
    if isinstance(prediction, Prediction):
        return {kind: getattr(prediction, kind).double().cpu().flatten() for kind in _KINDS}
    probs = as_tensor(prediction, "prediction").cpu().double()
    return {"total": torch.special.entr(probs).sum(-1)}


def _checked(
    probs: Any, labels: Any, weights: Any = None, name: str = "probs"
) -> tuple[Tensor, Tensor, Tensor | None]:
    labels = as_tensor(labels, "labels", numbers=True).cpu()
    counts = None
    if isinstance(probs, Prediction):
        probs = probs.probs
        counts = as_weights(weights, len(probs))
        if labels.shape == probs.shape[:-1]:  # or the shapes are refused below
            if counts is not None:  # all labels of an example have its weight
                counts = counts.repeat_interleave(labels[0].numel())
            probs, labels = probs.flatten(0, -2), labels.flatten()
    probs = as_tensor(probs, name, numbers=True).cpu().double()
    shape = tuple(probs.shape)
    require(probs.ndim == 2 and probs.numel() > 0, name, "of shape (examples, classes)", shape)
    rule = f"of shape (examples,), here ({shape[0]},)"
    require(tuple(labels.shape) == shape[:1], "labels", rule, tuple(labels.shape))
    integers = not (labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool)
    require(integers, "labels", "integers", labels.dtype)
    labels = labels.long()
    outside = labels[(labels < 0) | (labels >= shape[1])]
    rule = f"from 0 to {shape[1] - 1}"
    require(outside.numel() == 0, "labels", rule, outside[:1].sum().item())

    # A NaN fails both comparisons, and so is refused as well.
    inside = (probs >= -_SUM_WITHIN) & (probs <= 1 + _SUM_WITHIN)
    stray = probs[~inside]
    require(stray.numel() == 0, name, "from 0 to 1", stray[:1].sum().item())
    sums = probs.sum(dim=-1)
    worst = sums[(sums - 1).abs().argmax()].item()
    require(abs(worst - 1) <= _SUM_WITHIN, name, "of sum 1 in each row", worst)
    return probs, labels, as_weights(weights, len(labels)) if counts is None else counts
