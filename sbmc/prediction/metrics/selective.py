"""Answering the surest examples first: risk against coverage, and the area under the curve."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sbmc.checks import require
from sbmc.prediction.base import as_targets
from sbmc.prediction.prediction import Prediction
from sbmc.prediction.regression import RegressionPrediction
from sbmc.storage.arrays import as_floats


class RiskCoverage(NamedTuple):
    """Mean loss among the inputs answered, as more of them are answered."""

    coverage: np.ndarray  # (distinct scores,), rising to 1
    risk: np.ndarray  # (distinct scores,)
    area: float  # mean risk over all numbers of answered inputs, 1 to n


def risk_curve(score: np.ndarray, loss: np.ndarray) -> RiskCoverage:
    """Mean loss of the inputs whose score is lowest, for every number of them.

    With l_(i) the loss of the input with the i-th lowest score,

        coverage k/n,   risk_k = 1/k Σ_{i≤k} l_(i),   area = 1/n Σ_k risk_k

    Inputs of one score can only be answered together. The curve has a point for each distinct
    score; the area takes the expectation over the order of equals, so it does not depend on how
    the inputs were sorted.

    Args:
        score: `(examples,)` float64, checked; answered from the lowest on.
        loss: `(examples,)`, or booleans that say which answers are wrong.

    Returns:
        The curve and its area.
    """
    score, loss = _checked(score, loss, ("score", "loss"))
    _, block, sizes = np.unique(score, return_inverse=True, return_counts=True)
    last = np.cumsum(sizes)
    loss_at_last = np.cumsum(np.bincount(block, weights=loss))
    counts = np.arange(1, len(score) + 1)
    expected = np.interp(counts, np.r_[0, last], np.r_[0.0, loss_at_last])
    return RiskCoverage(last / len(score), loss_at_last / last, float((expected / counts).mean()))


def aurc(prediction: Any, targets: Any) -> float:
    """The area under the risk-coverage curve: how well uncertainty sorts out what is wrong.

    Args:
        prediction: of classes: the score is 1 − max_y p(y), the loss whether the label is another;
            of numbers: the score is the variance, the loss the squared error, both summed over
            outputs. Or any score `(examples,)`, higher for what is less sure.
        targets: of the prediction; or, beside a score, the loss `(examples,)` of each answer.

    Returns:
        The area; a score that says nothing has the mean loss, and 0 is perfect.

    Raises:
        BadInput: shapes do not fit, or values are not finite.

    Example:
        >>> [round(aurc(score, [0, 0, 1]), 4) for score in ([0.1, 0.2, 0.9], [0.9, 0.2, 0.1])]
        [0.1111, 0.6111]
    """
    if isinstance(prediction, Prediction):
        loss = prediction.labels != prediction.checked_labels(targets)
        pair = 1 - prediction.max_probability.flatten(), loss.flatten()
    elif isinstance(prediction, RegressionPrediction):
        loss = (prediction.mean - as_targets(targets, prediction.mean)).square()
        spread = prediction.variance.reshape(len(loss), -1)
        pair = spread.sum(1), loss.reshape(len(loss), -1).sum(1)
    else:
        return risk_curve(*_checked(prediction, targets, ("prediction", "targets"))).area
    return risk_curve(*_checked(*pair, ("prediction", "targets"))).area


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
