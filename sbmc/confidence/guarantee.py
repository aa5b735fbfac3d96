"""A threshold with a guarantee: few errors among the inputs answered, with high probability.

The guarantee holds for inputs drawn as the calibration data were, independently of each other. It
is **void under shift**: calibrated in domain, it says nothing once inputs from outside the domain
are among those to be answered. Calibrate on the mixture that is expected, or do not rely on it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sbmc.checks import is_whole, require, require_count
from sbmc.confidence.decisions import checked_scores
from sbmc.prediction.predictive import checked_level
from sbmc.storage.arrays import as_floats

ASSUMPTION = "holds for inputs drawn independently and like the calibration data; void under shift"
# The first test is made where about this many times the smallest number of answers is expected:
# with the smallest number itself, a single error would end the search.
HEADROOM = 3.0


@dataclass(frozen=True)
class Guarantee:
    """A threshold below which at most a share alpha of the answers is wrong, with confidence.

    Attributes:
        threshold: answer where the score is below it; None if no threshold passed.
        alpha: the error allowed among answered inputs.
        delta: the probability, over calibration samples, that the error is larger.
        bound: upper confidence bound of the error at the threshold; None if none passed.
        answered: calibration inputs that the threshold answers.
        errors: how many of these answers were wrong.
        examples: size of the calibration set.
        tested: how many thresholds were tested, the failing one included.
        assumption: the assumption, as text.
    """

    threshold: float | None
    alpha: float
    delta: float
    bound: float | None
    answered: int
    errors: int
    examples: int
    tested: int
    assumption: str = ASSUMPTION

    @property
    def answers_nothing(self) -> bool:
        """Whether no threshold passed: then every input is abstained from."""
        return self.threshold is None

    @property
    def coverage(self) -> float:
        """Share of the calibration inputs that are answered."""
        return self.answered / self.examples

    def answer(self, score: Any) -> np.ndarray:
        """Whether to answer each input, `(examples,)` booleans, given its score."""
        score = as_floats(score, "score", numbers=True)
        if self.threshold is None:
            return np.zeros(score.shape, dtype=bool)
        return score < self.threshold

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        if self.answers_nothing:
            return (
                f"answers nothing: no threshold showed an error of at most {self.alpha:g} "
                f"on {self.examples} calibration inputs"
            )
        return (
            f"answers {self.coverage:.1%} with an error of at most {self.alpha:g}, with "
            f"probability {1 - self.delta:g}; {self.assumption}"
        )


def guaranteed_threshold(
    score: Any, wrong: Any, grid: Any, *, alpha: float = 0.02, delta: float = 0.05
) -> Guarantee:
    """Find the least cautious threshold that provably keeps the error among answers small.

    For each threshold t, from the most cautious on, with n_t calibration inputs answered and k_t of
    them wrong, the exact (Clopper-Pearson) upper bound of the error R(t) = P(wrong | score < t),

        sup{r : P(Bin(n_t, r) ≤ k_t) > δ} = Beta⁻¹(1 − δ; k_t + 1, n_t − k_t),

    is compared with α; the first threshold whose bound is larger ends the search, and the one
    before it is taken. Testing in a fixed sequence needs no correction for the number of
    thresholds: a wrong choice needs a first wrong step, and that is one test at level δ. So over
    calibration samples, P(R(threshold) > α) ≤ δ. Beyond the paper.

    The grid must not come from the calibration data; `coverage_grid` makes one from other scores.

    Args:
        score: `(examples,)` of the calibration data, used for nothing else before.
        wrong: `(examples,)` booleans; out-of-domain inputs are wrong.
        grid: thresholds, rising.
        alpha: error allowed among the answered.
        delta: probability of a larger one.

    Returns:
        The threshold, or a guarantee that answers nothing.

    Raises:
        BadInput: α or δ outside (0, 1), a grid that does not rise, or too few calibration inputs
            for any threshold to pass; the message says how many are needed.

    Examples:
        >>> score = np.linspace(0, 1, 1000, endpoint=False)
        >>> found = guaranteed_threshold(score, score > 0.8, [0.3, 0.5, 0.7, 0.9])
        >>> found.threshold, found.coverage, found.errors
        (0.7, 0.7, 0)
    """
    score, wrong = checked_scores(score, wrong)
    thresholds = np.atleast_1d(as_floats(grid, "grid", numbers=True))
    rising = thresholds.ndim == 1 and bool((np.diff(thresholds) > 0).all()) and len(thresholds) > 0
    require(rising, "grid", "thresholds that rise", thresholds)
    needed = calibration_size(alpha, delta)
    alpha, delta = float(alpha), float(delta)
    rule = (
        f"of at least {needed} examples for an error of at most {alpha:g} "
        f"with probability {1 - delta:g}"
    )
    require(len(score) >= needed, "score", rule, len(score))

    order = np.argsort(score, kind="stable")
    answered = np.searchsorted(score[order], thresholds, side="left")
    errors = np.concatenate([[0], np.cumsum(wrong[order])])[answered]
    bounds = _upper_bounds(errors, answered, delta)
    # The first failure ends the search, whatever would come after it.
    failures = np.flatnonzero(bounds > alpha)
    passed = int(failures[0]) if len(failures) else len(thresholds)
    tested = min(passed + 1, len(thresholds))
    if passed == 0:
        return Guarantee(None, alpha, delta, None, 0, 0, len(score), tested)
    last = passed - 1
    return Guarantee(
        threshold=float(thresholds[last]),
        alpha=alpha,
        delta=delta,
        bound=float(bounds[last]),
        answered=int(answered[last]),
        errors=int(errors[last]),
        examples=len(score),
        tested=tested,
    )


def upper_bound(errors: int, answered: int, delta: float) -> float:
    """Clopper-Pearson upper confidence bound of an error probability, at confidence 1 − δ.

    Args:
        errors: how many of the answers were wrong.
        answered: how many answers there were.
        delta: probability that the truth is above.

    Returns:
        The bound; 1 where nothing is known.

    Examples:
        >>> round(upper_bound(0, 149, 0.05), 5), upper_bound(3, 3, 0.05), upper_bound(0, 0, 0.05)
        (0.0199, 1.0, 1.0)
    """
    require_count("answered", answered, 0)
    good = is_whole(errors) and 0 <= errors <= answered
    require(good, "errors", "an integer from 0 to the number answered", errors)
    level = _open_fraction("delta", delta)
    return float(_upper_bounds(np.array([errors]), np.array([answered]), level)[0])


def calibration_size(alpha: float, delta: float) -> int:
    """The smallest n with (1 − α)^n ≤ δ: without an error among them, n answers are just enough.

    Examples:
        >>> calibration_size(0.02, 0.05), calibration_size(0.5, 0.5)
        (149, 1)
    """
    alpha, delta = _open_fraction("alpha", alpha), _open_fraction("delta", delta)
    require(alpha >= 1e-9, "alpha", "at least 1e-9: a smaller one needs too many examples", alpha)
    # An exact power must not be missed by the rounding of the logarithms.
    return max(1, math.ceil(math.log(delta) / math.log1p(-alpha) - 1e-9))


def coverage_grid(
    score: Any, examples: int, *, alpha: float = 0.02, delta: float = 0.05, steps: int = 50
) -> np.ndarray:
    """Thresholds for `guaranteed_threshold`, from scores of data that it will not be given.

    They answer equally spaced shares of these data, from a share at which the calibration set will
    have enough answers for a first test, to all of them.

    Args:
        score: `(other examples,)`, of inputs like those of the calibration set.
        examples: size of the calibration set to come.
        alpha: as for `guaranteed_threshold`.
        delta: as for `guaranteed_threshold`.
        steps: how many thresholds, at most.

    Returns:
        Rising thresholds.

    Raises:
        BadInput: no scores, or sizes that are not positive integers.
    """
    score = as_floats(score, "score")
    score, _ = checked_scores(score, np.zeros(score.shape, dtype=bool))
    for name, value in (("examples", examples), ("steps", steps)):
        require_count(name, value)
    start = min(1.0, HEADROOM * calibration_size(alpha, delta) / examples)
    thresholds = np.quantile(score, np.linspace(start, 1.0, steps))
    # An input is answered strictly below the threshold, and the last one is to answer them all.
    return np.unique(np.nextafter(thresholds, np.inf))


def _upper_bounds(errors: np.ndarray, answered: np.ndarray, delta: float) -> np.ndarray:
    from scipy.stats import beta

    # Where all answers were wrong, or there was none, any error probability is possible.
    right = answered - errors
    return np.where(right > 0, beta.ppf(1 - delta, errors + 1, np.maximum(right, 1)), 1.0)


def _open_fraction(name: str, value: float) -> float:
    return checked_level(value, name)
