"""The F1-optimal threshold on probabilities that were held out from training."""

from __future__ import annotations

from typing import Any

import numpy as np

from sbmc.checks import Phrase, require
from sbmc.storage.arrays import as_floats


def f1_threshold(truth: Any, probability: Any) -> float:
    """The threshold t at which the decision `probability >= t` has the highest F1 score.

    F1 = 2 TP / (2 TP + FP + FN) is looked up at every threshold that makes a difference
    (scikit-learn's `precision_recall_curve`), where the paper goes over a grid. Of equals the
    smallest threshold is taken, which abstains the most.

    Args:
        truth: `(examples,)`, 1 for incorrect or out of domain, and 0.
        probability: `(examples,)` of being 1, of examples the classifier was not trained on.

    Returns:
        One of the probabilities.

    Raises:
        BadInput: if the shapes differ, or nothing is of class 1.

    Examples:
        >>> f1_threshold([0, 0, 1, 0, 1], [0.1, 0.2, 0.4, 0.5, 0.9])
        0.4
    """
    from sklearn.metrics import precision_recall_curve

    truth, probability = as_floats(truth, "truth"), as_floats(probability, "probability")
    rule = f"of the shape of the truth, {truth.shape}"
    require(probability.shape == truth.shape, "probability", rule, probability.shape)
    require(bool((truth == 1).any()), "truth", "of both classes", Phrase("nothing of class 1"))
    precision, recall, thresholds = precision_recall_curve(truth, probability)
    # The last point of the curve, recall 0, has no threshold.
    precision, recall = precision[:-1], recall[:-1]
    sum_of_both = np.where(precision + recall > 0, precision + recall, 1.0)
    return float(thresholds[np.argmax(2 * precision * recall / sum_of_both)])
