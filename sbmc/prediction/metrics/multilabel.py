"""How good predictions of several labels for each example are; most of it by scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from sbmc.checks import Phrase, is_number, require
from sbmc.prediction.metrics.classification import ece
from sbmc.prediction.metrics.weighting import as_weights
from sbmc.prediction.prediction import Prediction
from sbmc.storage.arrays import as_floats, as_tensor


def multilabel_metrics(
    probs: Any, labels: Any, threshold: float = 0.5, *, weights: Any = None
) -> dict[str, float]:
    """Measure predictions of labels that are each on or off.

    Args:
        probs: `(examples, labels)` probabilities of being on, or a prediction of `MultiLabel`.
        labels: `(examples, labels)` zeros and ones.
        threshold: a label is taken as on from this probability.
        weights: `(examples,)`; a weight of 2 is that example twice.

    Returns:
        `label_accuracy`: the share of labels that are right (1 − the Hamming loss);
        `subset_accuracy`: of examples of which all labels are; `f1.micro` and `f1.macro`; `nll`,
        `brier` and `ece`, means over single labels; `average_precision` and `auroc`, means over
        labels that are on in some examples and off in others, absent if there is none.

    Raises:
        BadInput: shapes differ, or values are no probabilities, no labels or no weights.

    Examples:
        >>> found = multilabel_metrics([[0.9, 0.2], [0.6, 0.8]], [[1, 0], [0, 1]])
        >>> found["label_accuracy"], found["subset_accuracy"], found["auroc"]
        (0.75, 0.5, 1.0)
    """
    from sklearn import metrics

    good = is_number(threshold) and 0 <= threshold <= 1
    require(good, "threshold", "from 0 to 1", threshold)
    on, truth = _checked(probs, labels)
    counts = as_weights(weights, len(on))
    given = None if counts is None else counts.numpy()
    if given is not None:
        on, truth, given = on[given > 0], truth[given > 0], given[given > 0]
    chosen = on >= threshold
    both = np.stack([1 - on.ravel(), on.ravel()], axis=1)
    chance = np.where(truth, on, 1 - on).clip(np.finfo(np.float64).tiny)
    options = {"zero_division": 0.0, "sample_weight": given}
    found = {
        "label_accuracy": np.average((chosen == truth).mean(axis=1), weights=given),
        "subset_accuracy": np.average((chosen == truth).all(axis=1), weights=given),
        "f1.micro": metrics.f1_score(truth, chosen, average="micro", **options),
        "f1.macro": metrics.f1_score(truth, chosen, average="macro", **options),
        "nll": np.average(-np.log(chance).mean(axis=1), weights=given),
        "brier": np.average(np.square(on - truth).mean(axis=1), weights=given),
        "ece": ece(
            both,
            truth.ravel().astype(int),
            weights=None if given is None else given.repeat(on.shape[1]),
        ),
    }
    varied = truth.any(axis=0) & ~truth.all(axis=0)
    if varied.any():
        columns = truth[:, varied], on[:, varied]
        for name, score in (
            ("average_precision", metrics.average_precision_score),
            ("auroc", metrics.roc_auc_score),
        ):
            found[name] = score(*columns, average="macro", sample_weight=given)
    return {name: float(value) for name, value in found.items()}


def _checked(probs: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(probs, Prediction):
        shape = tuple(probs.probs.shape)
        rule = "of labels that are on or off, with probabilities (examples, labels, 2)"
        got = Phrase(f"probabilities of shape {shape}")
        require(len(shape) == 3 and shape[2] == 2, "prediction", rule, got)
        probs = probs.probs[..., 1]
    on = as_floats(probs, "probs")
    truth = as_tensor(labels, "labels").cpu().numpy()
    rule = "of shape (examples, labels)"
    require(on.ndim == 2 and on.size > 0, "probs", rule, on.shape)
    require(
        truth.shape == on.shape, "labels", f"of the shape of the probs, {on.shape}", truth.shape
    )
    outside = on[~((on >= 0) & (on <= 1))]
    require(len(outside) == 0, "probs", "from 0 to 1", outside[:1])
    require(bool(np.isin(truth, (0, 1)).all()), "labels", "zeros and ones", Phrase("others"))
    return on, truth.astype(bool)
