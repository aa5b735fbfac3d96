"""Curves and bins for figures, reduced to a size that can be stored with a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sbmc.confidence.decisions import checked_scores, risk_coverage, two_level_accuracy
from sbmc.prediction.prediction import Prediction

POINTS = 200
THRESHOLDS = np.linspace(0.0, 1.0, 101)
BINS = 15
ENTROPIES = ("total", "aleatoric", "epistemic")


def roc_points(score: Any, wrong: Any) -> dict[str, np.ndarray]:
    """The ROC curve at 200 points, equally spaced along false plus true positive rate.

    That sum always rises, so that steep and flat parts of the curve both have points.

    Args:
        score: `(examples,)`.
        wrong: `(examples,)` booleans: the positives.

    Returns:
        `false_positive_rate` and `true_positive_rate`.
    """
    from sklearn.metrics import roc_curve

    false_rate, true_rate, _ = roc_curve(wrong, score)
    along = false_rate + true_rate
    at = np.linspace(0.0, along[-1], POINTS)
    return {
        "false_positive_rate": np.interp(at, along, false_rate),
        "true_positive_rate": np.interp(at, along, true_rate),
    }


def risk_points(score: Any, wrong: Any) -> dict[str, np.ndarray]:
    """The risk-coverage curve at 200 coverages, from the smallest possible one to 1."""
    curve = risk_coverage(score, wrong)
    at = np.linspace(curve.coverage[0], 1.0, POINTS)
    return {"coverage": at, "risk": np.interp(at, curve.coverage, curve.risk)}


def accuracy_points(score: Any, wrong: Any) -> dict[str, np.ndarray]:
    """Accuracy of the two-level estimator at 101 thresholds from 0 to 1."""
    return {"thresholds": THRESHOLDS, "accuracy": two_level_accuracy(score, wrong, THRESHOLDS)}


def reliability_bins(probability: Any, happened: Any, bins: int = BINS) -> dict[str, np.ndarray]:
    """Compare predicted probabilities with observed frequencies.

    Args:
        probability: `(examples,)` from 0 to 1.
        happened: `(examples,)` booleans.
        bins: of equal width, each with its upper edge.

    Returns:
        `count`, and the mean `probability` and `frequency` of each bin; NaN where it is empty.

    Examples:
        >>> found = reliability_bins([0.1, 0.2, 0.9], [False, True, True], bins=2)
        >>> found["count"].tolist(), found["frequency"].tolist()
        ([2, 1], [0.5, 1.0])
    """
    probability, happened = checked_scores(probability, happened)
    index = np.searchsorted(np.linspace(0, 1, bins + 1)[1:-1], probability, side="left")
    count = np.bincount(index, minlength=bins)
    share = np.where(count > 0, count, 1)
    empty = np.where(count > 0, 1.0, np.nan)
    return {
        "count": count,
        "probability": np.bincount(index, probability, bins) / share * empty,
        "frequency": np.bincount(index, happened, bins) / share * empty,
    }


def confusion_counts(score: Any, wrong: Any, threshold: float) -> np.ndarray:
    """Counts `(2, 2)`: rows are right and wrong, columns answered and abstained."""
    score, wrong = checked_scores(score, wrong)
    abstained = score >= threshold
    return np.array([[(~abstained & ~w).sum(), (abstained & ~w).sum()] for w in (wrong, ~wrong)])


def entropy_groups(
    inside: Prediction, labels: np.ndarray, outside: Mapping[str, Prediction]
) -> dict[str, np.ndarray]:
    """Mean entropies by group and by class.

    Args:
        inside: of in-domain inputs.
        labels: `(examples,)`.
        outside: predictions of each out-of-domain group.

    Returns:
        `groups`: names (`correct`, `incorrect`, then the out-of-domain ones); `classes`: labels
        that occur; and for each kind of entropy `groups.<kind>` and `classes.<kind>`, NaN for a
        group without examples.
    """
    correct = inside.labels.cpu().numpy() == labels
    classes = np.unique(labels)
    arrays = {"groups": np.array(["correct", "incorrect", *outside]), "classes": classes}
    for kind in ENTROPIES:
        entropy = getattr(inside, kind).cpu().numpy()
        groups = [entropy[correct], entropy[~correct]]
        groups += [getattr(group, kind).cpu().numpy() for group in outside.values()]
        arrays[f"groups.{kind}"] = np.array([_mean(group) for group in groups])
        arrays[f"classes.{kind}"] = np.array([entropy[labels == each].mean() for each in classes])
    return arrays


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")
