"""Answer or abstain: the two-level estimator, and risk against coverage.

Everywhere, `score` is the probability that an input is incorrect or out of domain, an input is
answered where its score is **below** the threshold, and `wrong` says whether the model's own answer
would have been wrong. Every out-of-domain input counts as wrong, since no label of the model fits
it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sbmc.checks import Phrase, require
from sbmc.prediction.metrics import RiskCoverage, risk_curve
from sbmc.storage.arrays import as_floats, as_tensor


def two_level_accuracy(score: Any, wrong: Any, thresholds: Any) -> np.ndarray:
    """Share of right decisions of "answer or abstain", for each threshold.

        1/n Σ_i 1[score_i < t] 1[right_i] + 1[score_i ≥ t] 1[wrong_i]

    An abstention is right when the model would have been wrong (paper, section 3). This is the
    accuracy of the meta-classifier at that threshold.

    Args:
        score: `(examples,)`.
        wrong: `(examples,)` booleans.
        thresholds: `(thresholds,)`, in any order.

    Returns:
        `(thresholds,)` fractions.

    Raises:
        BadInput: if shapes differ, there is no example, or a score is NaN.

    Examples:
        >>> two_level_accuracy([0.1, 0.6, 0.9], [False, False, True], [0.0, 0.5, 0.7, 1.0])
        array([0.33333333, 0.66666667, 1.        , 0.66666667])
    """
    score, wrong = checked_scores(score, wrong)
    order = np.argsort(score, kind="stable")
    wrong_so_far = np.concatenate([[0], np.cumsum(wrong[order])])
    answered = np.searchsorted(
        score[order], as_floats(thresholds, "thresholds", numbers=True), side="left"
    )
    right_answers = answered - wrong_so_far[answered]
    right_abstentions = wrong_so_far[-1] - wrong_so_far[answered]
    return (right_answers + right_abstentions) / len(score)


def risk_coverage(score: Any, wrong: Any) -> RiskCoverage:
    """The risk-coverage curve and the area under it (AURC).

    It is `sbmc.prediction.metrics.risk_curve` with a loss of 1 for a wrong answer. Inputs of one
    score can only be answered together, and the area does not depend on how they were sorted.

    Args:
        score: `(examples,)`.
        wrong: `(examples,)` booleans.

    Returns:
        The curve and its area; a random score has the share of wrong inputs as its area.

    Raises:
        BadInput: as for `two_level_accuracy`.

    Examples:
        >>> curve = risk_coverage([0.1, 0.2, 0.2, 0.9], [False, True, False, True])
        >>> curve.coverage.tolist(), curve.risk.round(2).tolist(), round(curve.area, 4)
        ([0.25, 0.75, 1.0], [0.0, 0.33, 0.5], 0.2708)
    """
    score, wrong = checked_scores(score, wrong)
    return risk_curve(score, wrong)


def checked_scores(score: Any, wrong: Any) -> tuple[np.ndarray, np.ndarray]:
    """Scores as float64 and outcomes as booleans, both `(examples,)`, checked."""
    score, wrong = as_floats(score, "score"), as_tensor(wrong, "wrong").cpu().numpy()
    good = score.ndim == 1 and len(score) > 0
    require(good, "score", "of shape (examples,), with at least one", score.shape)
    require(bool(np.isfinite(score).all()), "score", "finite", score[~np.isfinite(score)][:1])
    rule = f"of the shape of the scores, {score.shape}"
    require(wrong.shape == score.shape, "wrong", rule, wrong.shape)
    require(
        bool(np.isin(wrong, (0, 1)).all()), "wrong", "true or false", Phrase(f"dtype {wrong.dtype}")
    )
    return score, wrong.astype(bool)
