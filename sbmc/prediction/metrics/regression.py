"""How good predictions of numbers and counts are: errors, densities, CRPS, intervals, PIT.

A prediction may be given, or plain tensors, arrays or lists. Results are computed in float64. A
weight of 2 is that example twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sbmc.checks import Phrase, require
from sbmc.prediction.base import BasePrediction, Interval, as_targets
from sbmc.prediction.crps import sampled_crps
from sbmc.prediction.metrics.classification import nll
from sbmc.prediction.metrics.weighting import weighted_mean
from sbmc.prediction.predictive import checked_level
from sbmc.prediction.regression import RegressionPrediction
from sbmc.randomness import Stream, generator
from sbmc.storage.arrays import as_tensor


def rmse(mean: Any, targets: Any, *, weights: Any = None) -> float:
    """Root of the mean squared error, over all examples and outputs.

    Args:
        mean: `(examples,)` or `(examples, outputs)`; or a prediction.
        targets: the same shape; one output may come without its axis if it is a prediction.
        weights: `(examples,)`, not negative; all 1 if not given.

    Returns:
        The error, in the units of the targets.

    Raises:
        BadInput: if the shapes differ (they are never broadcast), there is no example, or weights
            do not fit.

    Examples:
        >>> rmse([1.0, 2.0], [1.0, 4.0]) == math.sqrt(2)
        True
    """
    if isinstance(mean, RegressionPrediction):
        mean, targets = mean.mean, as_targets(targets, mean.mean)
    mean, targets = _same_shape(mean, targets)
    return math.sqrt(weighted_mean((mean - targets).square(), weights))


def gaussian_nll(
    mean: Any, variance: Any = None, targets: Any = None, *, weights: Any = None
) -> float:
    """Mean negative log density of the targets under N(mean, variance), in nats.

        1/n Σ ½ log(2π variance) + (target − mean)² / (2 variance)

    Args:
        mean: `(examples,)` or `(examples, outputs)`; or a prediction, which has its own variance:
            `gaussian_nll(prediction, targets=...)`.
        variance: the same shape, positive.
        targets: the same shape.
        weights: as for `rmse`.

    Returns:
        The mean, over all examples and outputs.

    Raises:
        BadInput: if the shapes differ, there is no example, or a variance is not positive.

    Examples:
        >>> round(gaussian_nll([0.0], [1.0], [0.0]), 4)
        0.9189
    """
    if isinstance(mean, RegressionPrediction):
        require(variance is None, "variance", "left out for a prediction", Phrase("one"))
        targets = as_targets(targets, mean.mean)
        mean, variance = mean.mean, mean.variance
    mean, targets = _same_shape(mean, targets)
    variance = _float64(variance, "variance")
    rule = f"of the shape of the targets, {tuple(targets.shape)}"
    require(variance.shape == targets.shape, "variance", rule, tuple(variance.shape))
    smallest = variance.min().item()
    require(smallest > 0, "variance", "positive", smallest)
    terms = (2 * math.pi * variance).log() + (targets - mean).square() / variance
    return 0.5 * weighted_mean(terms, weights)


def crps(prediction: Any, targets: Any, *, weights: Any = None) -> float:
    """Mean continuous ranked probability score, in the unit of the targets; 0 is perfect.

    Args:
        prediction: of numbers or counts, or of classes, for which it is half the Brier score; or
            draws `(draws, *shape of the targets)` from any predictive distribution, two or more.
        targets: `(examples,)` or `(examples, outputs)`.
        weights: as for `rmse`.

    Returns:
        The mean over all examples and outputs. That of draws is an unbiased estimate.

    Raises:
        BadInput: shapes do not fit, or the prediction does not know its particles.

    Examples:
        >>> crps([[0.0], [2.0], [4.0]], [2.0])  # with so few draws, an estimate may be negative
        0.0
    """
    if isinstance(prediction, BasePrediction):
        return weighted_mean(prediction.crps(targets), weights)
    draws, values = _draws(prediction, targets)
    return weighted_mean(sampled_crps(draws, values), weights)


def interval_coverage(
    prediction: Any, targets: Any, level: float = 0.9, *, weights: Any = None
) -> float:
    """The share of targets inside their intervals, over all examples and outputs.

    Args:
        prediction: a prediction, whose interval of this level is taken; or `(lower, upper)`, each
            in the shape of the targets.
        targets: `(examples,)` or `(examples, outputs)`.
        level: of the interval of a prediction.
        weights: as for `rmse`.

    Returns:
        A fraction; near `level` if the prediction is calibrated.

    Raises:
        BadInput: shapes do not fit.

    Examples:
        >>> interval_coverage(([0.0, 0.0], [1.0, 1.0]), [0.5, 2.0])
        0.5
    """
    return weighted_mean(_interval(prediction, level).covers(targets).double(), weights)


def interval_width(prediction: Any, level: float = 0.9, *, weights: Any = None) -> float:
    """The mean width of intervals, in the unit of the targets.

    Args:
        prediction: as for `interval_coverage`.
        level: of the interval of a prediction.
        weights: as for `rmse`.

    Returns:
        The mean over all examples and outputs. Only intervals that cover enough are the better for
        being narrow.

    Examples:
        >>> interval_width(([0.0, 0.0], [1.0, 3.0]))
        2.0
    """
    return weighted_mean(_interval(prediction, level).width, weights)


def pit(prediction: Any, targets: Any, *, seed: int = 0) -> Tensor:
    """The probability integral transform of the targets, F(y): uniform if F is right.

    Values that gather in the middle mean a distribution that is too wide; at both ends, one that is
    too narrow. For counts it is randomised between F(y − 1) and F(y), and for draws over the ranks
    that a target can have among them, since only so can it be uniform.

    Args:
        prediction: of numbers or counts; or draws as for `crps`.
        targets: `(examples,)` or `(examples, outputs)`.
        seed: of the randomisation.

    Returns:
        Values from 0 to 1, in the shape of the targets.

    Raises:
        BadInput: shapes do not fit, or the prediction does not know its particles.

    Examples:
        >>> pit([[0.0], [1.0], [2.0]], [1.5]).item() > 0.5
        True
    """
    rng = generator(seed, Stream.PREDICTIONS)
    if isinstance(prediction, RegressionPrediction):
        upper = prediction.cdf(targets).cpu()
        particles = prediction.particles
        if particles is None or particles.likelihood.kind != "counts":
            return upper
        lower = prediction.cdf(as_targets(targets, prediction.mean) - 1).cpu()
    else:
        draws, values = _draws(prediction, targets)
        lower = (draws < values).double().sum(0) / (len(draws) + 1)
        upper = ((draws <= values).double().sum(0) + 1) / (len(draws) + 1)
    return lower + (upper - lower) * torch.rand(upper.shape, generator=rng, dtype=torch.float64)


def regression_metrics(
    prediction: Any, targets: Any, level: float = 0.9, *, weights: Any = None
) -> dict[str, float]:
    """Measure a prediction of numbers or counts.

    Args:
        prediction: for the examples of `targets`; or `(mean, variance)`, each in their shape.
        targets: the shape of `prediction.mean`, or `(examples,)` where there is one output.
        level: of the intervals.
        weights: as for `rmse`.

    Returns:
        `rmse`, and `nll.moments`, the NLL of the Gaussian with the mixture's mean and variance,
        which is exact for one particle with Gaussian noise. If the prediction knows its particles,
        also those of the mixture itself: `nll`, `crps`, and `coverage` and `width` of intervals.

    Raises:
        BadInput: as for `gaussian_nll`.
    """
    checked_level(level)
    if not isinstance(prediction, RegressionPrediction):
        pair = isinstance(prediction, Sequence) and len(prediction) == 2
        rule = "a prediction, or (mean, variance)"
        require(pair and not isinstance(prediction, str), "prediction", rule, prediction)
        mean, variance = prediction
        return {
            "rmse": rmse(mean, targets, weights=weights),
            "nll.moments": gaussian_nll(mean, variance, targets, weights=weights),
        }
    metrics = {
        "rmse": rmse(prediction, targets, weights=weights),
        "nll.moments": gaussian_nll(prediction, targets=targets, weights=weights),
    }
    if prediction.particles is not None and prediction.particles.has_distribution:
        interval = prediction.interval(level)
        metrics["nll"] = nll(prediction, targets, weights=weights)
        metrics["crps"] = crps(prediction, targets, weights=weights)
        metrics["coverage"] = interval_coverage(interval, targets, weights=weights)
        metrics["width"] = interval_width(interval, weights=weights)
    return metrics


def _interval(prediction: Any, level: float) -> Interval:
    if isinstance(prediction, BasePrediction):
        return prediction.interval(level)
    rule = "a prediction, or (lower, upper)"
    pair = isinstance(prediction, Sequence) and len(prediction) == 2
    require(pair and not isinstance(prediction, str), "prediction", rule, prediction)
    names = ("prediction[0]", "prediction[1]")
    lower, upper = _same_shape(prediction[0], prediction[1], names)
    ordered = bool((lower <= upper).all())
    require(ordered, "prediction[1]", "at least `prediction[0]`", Phrase("less somewhere"))
    return Interval(lower, upper)


def _draws(draws: Any, targets: Any) -> tuple[Tensor, Tensor]:
    drawn, values = _float64(draws, "prediction"), _float64(targets, "targets")
    rule = f"a prediction, or two or more draws of shape (draws, {str(tuple(values.shape))[1:]}"
    good = (
        values.ndim > 0 and drawn.ndim > 0 and len(drawn) >= 2 and drawn.shape[1:] == values.shape
    )
    require(good and values.numel() > 0, "prediction", rule, tuple(drawn.shape))
    return drawn, values


def _float64(values: Any, name: str) -> Tensor:
    return as_tensor(values, name, numbers=True).cpu().double()


def _same_shape(
    first: Any, second: Any, names: tuple[str, str] = ("mean", "targets")
) -> tuple[Tensor, Tensor]:
    first, second = _float64(first, names[0]), _float64(second, names[1])
    several = first.ndim > 0 and first.numel() > 0
    require(several, names[0], "of at least one example", tuple(first.shape))
    rule = f"of the shape of the {names[0]}, {tuple(first.shape)}"
    require(second.shape == first.shape, names[1], rule, tuple(second.shape))
    return first, second
