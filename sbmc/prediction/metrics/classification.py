"""How good predictions of classes are: accuracy, NLL, Brier score, calibration, entropies.

A prediction may be given, or its probabilities as a tensor, an array or a list. Results are plain
floats, computed in float64. Values that are not probabilities are refused, and never taken for
logits. Where examples have several labels, a prediction counts all of them alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from sbmc.checks import require, require_count
from sbmc.prediction.prediction import Prediction
from sbmc.prediction.regression import RegressionPrediction
from sbmc.storage.arrays import as_tensor

_KINDS = ("total", "aleatoric", "epistemic")
# Examples whose differences from the labels are held at a time.
_PIECE = 4096
# Rounding of float32 over a thousand classes stays well inside.
_SUM_WITHIN = 1e-3


def accuracy(probs: Any, labels: Any) -> float:
    """Fraction of examples whose most probable class is the label.

    Args:
        probs: `(examples, classes)`, or a prediction.
        labels: `(examples,)` integers from 0.

    Returns:
        A fraction (not per cent).

    Raises:
        BadInput: if `probs` are not probabilities or `labels` do not fit them.

    Example:
        >>> accuracy([[0.9, 0.1], [0.8, 0.2]], [0, 1])
        0.5
    """
    probs, labels = _checked(probs, labels)
    return (probs.argmax(dim=-1) == labels).double().mean().item()


def nll(probs: Any, labels: Any) -> float:
    """Mean negative log probability of the label, in nats: −1/n Σ log p(y_n|x_n).

    For a prediction of numbers it is that of the mixture's density. (`gaussian_nll` is that of a
    Gaussian with the same mean and variance.)

    A probability of exactly zero counts as the smallest normal float64, which costs 708 nats: one
    impossible label is then unmistakable, and yet does not make all runs look alike.

    Args:
        probs: `(examples, classes)`, or a prediction of classes or numbers.
        labels: `(examples,)` integers from 0; for numbers, the targets.

    Returns:
        The mean; for classes, 0 is perfect.

    Raises:
        BadInput: as for `accuracy`.

    Example:
        >>> round(nll([[0.5, 0.5], [0.25, 0.75]], [0, 1]), 4)
        0.4904
    """
    if isinstance(probs, RegressionPrediction):
        return -probs.log_prob(labels).mean().item()
    probs, labels = _checked(probs, labels)
    label_probs = probs.gather(1, labels.unsqueeze(1)).clamp(min=torch.finfo(torch.float64).tiny)
    return -label_probs.log().mean().item()


def brier(probs: Any, labels: Any) -> float:
    """Brier score, summed over classes: 1/n Σ_n Σ_y (p(y|x_n) − 1[y = y_n])².

    It runs from 0 to 2. For two classes it is twice the score of one class alone, which is what
    scikit-learn's `brier_score_loss` gives by default and what the paper has for IMDb.

    Args:
        probs: `(examples, classes)`, or a prediction.
        labels: `(examples,)` integers from 0.

    Returns:
        The mean over examples; 0 is perfect.

    Raises:
        BadInput: as for `accuracy`.

    Example:
        >>> brier([[0.5, 0.5]], [0])
        0.5
    """
    probs, labels = _checked(probs, labels)
    each = []
    # In pieces: of many classes, both the labels and the differences are as large as `probs`.
    for some, piece_labels in zip(probs.split(_PIECE), labels.split(_PIECE), strict=True):
        truth = torch.nn.functional.one_hot(piece_labels, probs.shape[1])
        each.append((some - truth).square().sum(dim=-1))
    return torch.cat(each).mean().item()


def ece(probs: Any, labels: Any, bins: int = 15) -> float:
    """Expected calibration error: Σ_b n_b/n |accuracy_b − confidence_b|.

    Confidence is the largest probability; the bins divide (0, 1] into equal widths, each with its
    upper edge (Guo et al., 2017).

    Args:
        probs: `(examples, classes)`, or a prediction.
        labels: `(examples,)` integers from 0.
        bins: how many bins.

    Returns:
        The weighted mean gap, from 0 to 1.

    Raises:
        BadInput: as for `accuracy`, or if `bins` is not a positive integer.

    Example:
        >>> ece([[1.0, 0.0], [1.0, 0.0]], [0, 1])
        0.5
    """
    require_count("bins", bins)
    probs, labels = _checked(probs, labels)
    confidence, predicted = probs.max(dim=-1)
    # The summed gap of a bin is |Σ correct − Σ confidence|, so empty bins need no special care.
    gap = (predicted == labels).double() - confidence
    inner_edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64)[1:-1]
    index = torch.bucketize(confidence, inner_edges)
    per_bin = torch.zeros(bins, dtype=torch.float64).index_add(0, index, gap)
    return (per_bin.abs().sum() / len(labels)).item()


def classification_metrics(prediction: Prediction, labels: Any) -> dict[str, float]:
    """Measure a prediction on in-domain data.

    Args:
        prediction: for the examples of `labels`.
        labels: `(examples,)` integers from 0.

    Returns:
        `accuracy nll brier ece` and, for each of the three entropies, its mean
        `entropy.{total,aleatoric,epistemic}.{id,correct,incorrect}`: over all examples, over those
        whose most probable class is the label, and over the others. A set without examples has no
        mean: where nothing is incorrect, the keys that end in `.incorrect` are absent (not NaN).

    Raises:
        BadInput: if `labels` do not fit the prediction.
    """
    rule = "a prediction of classes, from posterior.predict"
    require(isinstance(prediction, Prediction), "prediction", rule, prediction)
    probs, labels = _checked(prediction.probs, labels)
    metrics = {
        "accuracy": accuracy(probs, labels),
        "nll": nll(probs, labels),
        "brier": brier(probs, labels),
        "ece": ece(probs, labels),
    }
    correct = probs.argmax(dim=-1) == labels
    everything = torch.ones_like(correct)
    for kind in _KINDS:
        entropy = getattr(prediction, kind).double().cpu()
        for name, chosen in (("id", everything), ("correct", correct), ("incorrect", ~correct)):
            if chosen.any():
                metrics[f"entropy.{kind}.{name}"] = entropy[chosen].mean().item()
    return metrics


def ood_metrics(predictions: Mapping[str, Prediction]) -> dict[str, float]:
    """Mean entropies on out-of-domain groups.

    Args:
        predictions: the prediction for each group, by the group's name.

    Returns:
        `entropy.{total,aleatoric,epistemic}.ood.<group>`, and `.ood.all` over the examples of all
        groups together. Groups without examples are absent.

    Raises:
        BadInput: if there is no group, or one is called "all".
    """
    rule = "predictions by the names of their groups"
    good = isinstance(predictions, Mapping)
    good = good and all(isinstance(each, Prediction) for each in predictions.values())
    require(good, "predictions", rule, predictions)
    names = list(predictions)
    require(len(names) > 0, "predictions", "at least one group", names)
    require("all" not in names, "predictions", "groups of which none is called 'all'", names)
    filled = {name: group for name, group in predictions.items() if len(group)}
    if not filled:
        return {}
    metrics = {}
    for kind in _KINDS:
        entropies = {name: getattr(group, kind).double() for name, group in filled.items()}
        entropies["all"] = torch.cat(list(entropies.values()))
        for name, entropy in entropies.items():
            metrics[f"entropy.{kind}.ood.{name}"] = entropy.mean().item()
    return metrics


def _checked(probs: Any, labels: Any) -> tuple[Tensor, Tensor]:
    labels = as_tensor(labels, "labels", numbers=True).cpu()
    if isinstance(probs, Prediction):
        probs = probs.probs
        if labels.shape == probs.shape[:-1]:  # or the shapes are refused below
            probs, labels = probs.flatten(0, -2), labels.flatten()
    probs = as_tensor(probs, "probs", numbers=True).cpu().double()
    shape = tuple(probs.shape)
    require(probs.ndim == 2 and probs.numel() > 0, "probs", "of shape (examples, classes)", shape)
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
    require(stray.numel() == 0, "probs", "from 0 to 1", stray[:1].sum().item())
    sums = probs.sum(dim=-1)
    worst = sums[(sums - 1).abs().argmax()].item()
    require(abs(worst - 1) <= _SUM_WITHIN, "probs", "of sum 1 in each row", worst)
    return probs, labels
