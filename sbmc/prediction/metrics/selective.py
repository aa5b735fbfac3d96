"""Answering the surest examples first: risk against coverage, and the area under the curve."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma

from sbmc.checks import require
from sbmc.prediction.base import as_targets
from sbmc.prediction.metrics.weighting import as_weights
from sbmc.prediction.prediction import Prediction
from sbmc.prediction.regression import RegressionPrediction
from sbmc.storage.arrays import as_floats


class RiskCoverage(NamedTuple):
    """Mean loss among the inputs answered, as more of them are answered."""

    coverage: np.ndarray  # (distinct scores,), rising to 1
    risk: np.ndarray  # (distinct scores,)
    area: float  # mean risk over all numbers of answered inputs, 1 to n


def risk_curve(
    score: np.ndarray, loss: np.ndarray, weights: np.ndarray | None = None
) -> RiskCoverage:
    """Mean loss of the inputs whose score is lowest, for every number of them.

    With l_(i) the loss of the input with the i-th lowest score,

        coverage k/n,   risk_k = 1/k Σ_{i≤k} l_(i),   area = 1/n Σ_k risk_k

    Inputs of one score can only be answered together. The curve has a point for each distinct
    score; the area takes the expectation over the order of equals, so it does not depend on how
    the inputs were sorted.

    Args:
        score: `(examples,)` float64, checked; answered from the lowest on.
        loss: `(examples,)`, or booleans that say which answers are wrong.
        weights: `(examples,)`, checked; a weight of 2 is that input twice. Inputs of one score then
            add Σ_{a<k≤b} risk_k to the area, for a sum of weights that grows from a to b. It has a
            closed form by the digamma function, which holds for weights that are not integers too.

    Returns:
        The curve and its area.
    """
    score, loss = _checked(score, loss, ("score", "loss"))
    given = as_weights(weights, len(score))
    if given is not None:
        return _weighted_risk_curve(score, loss, given.numpy())
    _, block, sizes = np.unique(score, return_inverse=True, return_counts=True)
    last = np.cumsum(sizes)
    loss_at_last = np.cumsum(np.bincount(block, weights=loss))
    counts = np.arange(1, len(score) + 1)
    expected = np.interp(counts, np.r_[0, last], np.r_[0.0, loss_at_last])
    return RiskCoverage(last / len(score), loss_at_last / last, float((expected / counts).mean()))


def _weighted_risk_curve(score: np.ndarray, loss: np.ndarray, weights: np.ndarray) -> RiskCoverage:
    counted = weights > 0
    score, loss, weights = score[counted], loss[counted], weights[counted]
    _, block = np.unique(score, return_inverse=True)
    last = np.cumsum(np.bincount(block, weights=weights))
    loss_at_last = np.cumsum(np.bincount(block, weights=weights * loss))
    first, loss_at_first = np.r_[0.0, last[:-1]], np.r_[0.0, loss_at_last[:-1]]
    # Inside a block the expected loss is L_a + (k − a)·r, and Σ 1/k = ψ(b + 1) − ψ(a + 1).
    rate = (loss_at_last - loss_at_first) / (last - first)
    inverse = digamma(last + 1) - digamma(first + 1)
    sums = rate * (last - first) + (loss_at_first - first * rate) * inverse
    area = float(sums.sum() / last[-1])
    return RiskCoverage(last / last[-1], loss_at_last / last, area)


def aurc(prediction: Any, targets: Any, *, weights: Any = None) -> float:
    """The area under the risk-coverage curve: how well uncertainty sorts out what is wrong.

    Args:
        prediction: of classes: the score is 1 − max_y p(y), the loss whether the label is another;
            of numbers: the score is the variance, the loss the squared error, both summed over
            outputs. Or any score `(examples,)`, higher for what is less sure.
        targets: of the prediction; or, beside a score, the loss `(examples,)` of each answer.
        weights: `(examples,)`; a weight of 2 is that example twice.

    Returns:
        The area; a score that says nothing has the mean loss, and 0 is perfect.

    Raises:
        BadInput: shapes do not fit, values are not finite, or weights are negative.

    Examples:
        >>> [round(aurc(score, [0, 0, 1]), 4) for score in ([0.1, 0.2, 0.9], [0.9, 0.2, 0.1])]
        [0.1111, 0.6111]
    """
    repeats = 1  # labels of an example, which all have its weight
    if isinstance(prediction, Prediction):
        loss = prediction.labels != prediction.checked_labels(targets)
        pair = 1 - prediction.max_probability.flatten(), loss.flatten()
        repeats = loss[0].numel()
    elif isinstance(prediction, RegressionPrediction):
        loss = (prediction.mean - as_targets(targets, prediction.mean)).square()
        spread = prediction.variance.reshape(len(loss), -1)
        pair = spread.sum(1), loss.reshape(len(loss), -1).sum(1)
    else:
        pair = prediction, targets
    score, losses = _checked(*pair, ("prediction", "targets"))
    counts = as_weights(weights, len(score) // repeats)
    given = None if counts is None else counts.numpy().repeat(repeats)
    return risk_curve(score, losses, given).area


def _checked(score: Any, loss: Any, names: tuple[str, str]) -> tuple[np.ndarray, np.ndarray]:
    scores, losses = as_floats(score, names[0]), as_floats(loss, names[1])
    good = scores.ndim == 1 and len(scores) > 0
    require(good, names[0], "of shape (examples,), with at least one", scores.shape)
    rule = f"of the shape of the scores, {scores.shape}"
    require(losses.shape == scores.shape, names[1], rule, losses.shape)
    for name, values in zip(names, (scores, losses), strict=True):
        stray = values[~np.isfinite(values)]
        require(len(stray) == 0, name, "finite", stray[:1])
    return scores, losses
