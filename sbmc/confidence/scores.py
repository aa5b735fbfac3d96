"""Measures how well a score separates out-of-domain from in-domain inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sbmc.checks import Phrase, describe_value, require
from sbmc.likelihoods.weighted import check_weights
from sbmc.prediction.prediction import Prediction
from sbmc.storage.arrays import as_floats

TRUE_POSITIVE_RATE = 0.95
SCORES = ("max_probability", "total", "epistemic", "meta_classifier")


class Detection(NamedTuple):
    """Out-of-domain inputs are the positives; a higher score means "outside"."""

    auroc: float  # probability that an outside input scores above an inside one, ties half
    aupr: float  # average precision
    fpr95: float  # share of inside inputs flagged where 95 % of the outside ones are


def detection(inside: Any, outside: Any, *, weights: tuple[Any, Any] | None = None) -> Detection:
    """Measure a score on in-domain and out-of-domain inputs together.

    Args:
        inside: `(in-domain examples,)`, correct and incorrect ones alike.
        outside: `(out-of-domain examples,)`; higher is to mean outside.
        weights: of the examples inside and of those outside; a weight of 2 is that example twice.

    Returns:
        AUROC, AUPR (which depends on the share of outside inputs; chance is that share) and the
        false-positive rate at the first threshold that finds 95 % of them.

    Raises:
        BadInput: if either is empty or not finite, since no score can be judged on one domain
            alone; or weights do not fit.

    Examples:
        >>> detection([0.1, 0.2, 0.3, 0.8], [0.7, 0.9])
        Detection(auroc=0.875, aupr=0.8333333333333333, fpr95=0.25)
    """
    pair = weights is None or (isinstance(weights, list | tuple) and len(weights) == 2)
    require(pair, "weights", "two: of `inside` and of `outside`, or None", weights)
    from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

    parts = {"inside": inside, "outside": outside}
    arrays = {name: as_floats(part, name) for name, part in parts.items()}
    for name, part in arrays.items():
        rule = "scores of at least one example, of shape (examples,)"
        require(part.ndim == 1 and len(part) > 0, name, rule, Phrase(f"shape {part.shape}"))
        require(bool(np.isfinite(part).all()), name, "finite", part[~np.isfinite(part)][:1])
    score = np.concatenate(list(arrays.values()))
    truth = np.repeat([0, 1], [len(part) for part in arrays.values()])
    counts = None
    if weights is not None:
        own = zip(weights, arrays.values(), strict=True)
        counts = np.concatenate([check_weights(w, len(part)).numpy() for w, part in own])
    options = {"sample_weight": counts}
    false_rate, true_rate, _ = roc_curve(truth, score, drop_intermediate=False, **options)
    reached = np.argmax(true_rate >= TRUE_POSITIVE_RATE)
    return Detection(
        float(roc_auc_score(truth, score, **options)),
        float(average_precision_score(truth, score, **options)),
        float(false_rate[reached]),
    )


def prediction_scores(prediction: Prediction) -> dict[str, np.ndarray]:
    """The scores that need no meta-classifier, turned so that higher means outside.

    Args:
        prediction: for any inputs.

    Returns:
        `max_probability` (with a minus sign), `total` and `epistemic`, each `(examples,)`.
    """
    columns = {
        "max_probability": -prediction.max_probability,
        "total": prediction.total,
        "epistemic": prediction.epistemic,
    }
    return {name: column.detach().cpu().double().numpy() for name, column in columns.items()}


def detection_metrics(
    inside: Mapping[str, Any], outside: Mapping[str, Any], prefix: str = "ood."
) -> dict[str, float]:
    """`ood.<score>.{auroc,aupr,fpr95}` for each score.

    Args:
        inside: each score's values on in-domain inputs, by its name.
        outside: the same on out-of-domain inputs.
        prefix: of the names.

    Returns:
        Flat metrics.

    Raises:
        BadInput: if the two have different scores, or as for `detection`.
    """
    for name, each in (("inside", inside), ("outside", outside)):
        require(isinstance(each, Mapping), name, "a dict of scores by their names", each)
    require(isinstance(prefix, str), "prefix", "a text, with which the names begin", prefix)
    rule = f"of the same scores as `inside`, {describe_value(list(inside))}"
    require(list(inside) == list(outside), "outside", rule, list(outside))
    return {
        f"{prefix}{name}.{kind}": value
        for name in inside
        for kind, value in detection(inside[name], outside[name])._asdict().items()
    }
