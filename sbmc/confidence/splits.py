"""Tests the guarantee: many calibration sets from one pool, and the error of each threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sbmc.checks import require_count
from sbmc.confidence.decisions import checked_scores
from sbmc.confidence.guarantee import guaranteed_threshold
from sbmc.randomness import require_seed


@dataclass(frozen=True, eq=False)
class SplitStudy:
    """The results of all calibration sets.

    Attributes:
        alpha: error allowed among the answered.
        threshold: `(splits,)`; NaN where nothing is answered.
        error: `(splits,)`, among all inputs of the pool that the threshold answers: the error that
            the guarantee speaks of. NaN where nothing is answered.
        rest_error: `(splits,)`, the same among the inputs that were not drawn for calibration,
            which has sampling noise of its own.
        coverage: `(splits,)`, share of the pool that is answered.
    """

    alpha: float
    threshold: np.ndarray
    error: np.ndarray
    rest_error: np.ndarray
    coverage: np.ndarray

    @property
    def violations(self) -> float:
        """Share of calibration sets whose threshold has an error above α."""
        return float((self.error > self.alpha).mean())

    def metrics(self) -> dict[str, float]:
        """Means over splits; those of errors are over the splits that answer something."""
        some = ~np.isnan(self.error)
        means = {
            "violations": self.violations,
            "rest_violations": float((self.rest_error > self.alpha).mean()),
            "coverage": float(self.coverage.mean()),
            "answers_nothing": float((~some).mean()),
        }
        if some.any():
            means["error"] = float(self.error[some].mean())
        if (~np.isnan(self.rest_error)).any():
            means["rest_error"] = float(np.nanmean(self.rest_error))
        return means


def calibration_splits(
    score: Any,
    wrong: Any,
    grid: Any,
    *,
    alpha: float = 0.02,
    delta: float = 0.05,
    splits: int = 200,
    examples: int | None = None,
    seed: int = 0,
) -> SplitStudy:
    """Calibrate many times on samples of a pool.

    Each calibration set is drawn with replacement, so that the pool is the distribution and the
    error over all of it the very one that the guarantee bounds: violations have probability at most
    δ, without an allowance for a finite test set.

    Args:
        score: `(pool,)`.
        wrong: `(pool,)` booleans.
        grid: rising thresholds, not from the pool.
        alpha: error allowed among the answered.
        delta: probability of a larger one.
        splits: how many calibration sets.
        examples: size of each; half of the pool if not given.
        seed: of the draws.

    Returns:
        Threshold, errors and coverage of each split.

    Raises:
        BadInput: as for `guaranteed_threshold`.
    """
    score, wrong = checked_scores(score, wrong)
    size = max(1, len(score) // 2) if examples is None else examples
    for name, value in (("splits", splits), ("examples", size)):
        require_count(name, value)
    require_seed(seed)
    rng = np.random.default_rng(int(seed))
    rows = []
    for _ in range(splits):
        drawn = rng.integers(len(score), size=size)
        guarantee = guaranteed_threshold(score[drawn], wrong[drawn], grid, alpha=alpha, delta=delta)
        answered = guarantee.answer(score)
        others = answered.copy()
        others[drawn] = False
        threshold = np.nan if guarantee.threshold is None else guarantee.threshold
        rows.append((threshold, _share(wrong, answered), _share(wrong, others), answered.mean()))
    return SplitStudy(alpha, *np.array(rows, dtype=np.float64).T)


def _share(wrong: np.ndarray, answered: np.ndarray) -> float:
    return float(wrong[answered].mean()) if answered.any() else float("nan")
