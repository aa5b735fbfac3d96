"""The guaranteed mode: its bound, its search, and whether it keeps its promise."""

import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from sbmc.checks import BadInput
from sbmc.confidence.guarantee import (
    Guarantee,
    calibration_size,
    coverage_grid,
    guaranteed_threshold,
    upper_bound,
)
from sbmc.confidence.splits import calibration_splits

ALPHA, DELTA = 0.1, 0.1
GRID = np.linspace(0.2, 1.0, 41)


# The bound.


@pytest.mark.parametrize(("errors", "answered"), [(0, 1), (0, 149), (3, 200), (7, 7), (50, 51)])
def test_bound_against_scipy(errors, answered):
    # A two-sided interval of confidence 1 - 2 delta has the one-sided bound as its upper end.
    interval = binomtest(errors, answered).proportion_ci(0.9, method="exact")
    assert upper_bound(errors, answered, 0.05) == pytest.approx(interval.high, abs=1e-12)


def test_bound_is_where_the_binomial_tail_is_delta():
    bound = upper_bound(4, 300, 0.05)
    assert binom.cdf(4, 300, bound) == pytest.approx(0.05, abs=1e-10)


@pytest.mark.parametrize("alpha", [0.01, 0.02, 0.1, 0.5])
@pytest.mark.parametrize("delta", [0.01, 0.05, 0.25])
def test_calibration_size_is_the_smallest(alpha, delta):
    needed = calibration_size(alpha, delta)
    assert (1 - alpha) ** needed <= delta * (1 + 1e-12)
    assert (1 - alpha) ** (needed - 1) > delta
    assert upper_bound(0, needed, delta) <= alpha + 1e-12
    assert upper_bound(0, needed - 1, delta) > alpha


# The search.


def test_it_stops_at_the_first_failure():
    # Right below 0.5, wrong from there to 0.6, right above: the last would pass if it were asked.
    score = np.linspace(0, 1, 10_000, endpoint=False)
    wrong = (score >= 0.5) & (score < 0.6)
    found = guaranteed_threshold(score, wrong, [0.4, 0.5, 0.6, 1.0], alpha=0.11, delta=0.05)
    assert (found.threshold, found.tested, found.errors, found.answered) == (0.5, 3, 0, 5000)
    assert upper_bound(1000, 10_000, 0.05) < 0.11


def test_it_reports_what_it_found():
    score = np.linspace(0, 1, 1000, endpoint=False)
    found = guaranteed_threshold(score, score >= 0.7, [0.5, 0.705, 0.9], alpha=0.05, delta=0.1)
    assert (found.threshold, found.answered, found.errors) == (0.705, 705, 5)
    assert found.bound == upper_bound(5, 705, 0.1)
    assert found.coverage == 0.705
    assert found.answer([0.7, 0.705, 0.9]).tolist() == [True, False, False]
    assert "void under shift" in found.assumption
    assert str(found).startswith(
        "answers 70.5% with an error of at most 0.05, with probability 0.9"
    )
    assert Guarantee(**found.as_dict()) == found


def test_answering_nothing_is_reported_as_such():
    rng = np.random.default_rng(0)
    score = rng.random(500)
    found = guaranteed_threshold(score, rng.random(500) < 0.5, GRID, alpha=0.02, delta=0.05)
    assert found.answers_nothing
    assert (found.threshold, found.bound, found.coverage, found.tested) == (None, None, 0.0, 1)
    assert not found.answer(score).any()
    assert str(found).startswith("answers nothing: no threshold showed an error of at most 0.02")


def test_too_few_examples_are_refused_with_the_number_needed():
    with pytest.raises(BadInput) as refused:
        guaranteed_threshold(np.zeros(148), np.zeros(148), [0.5], alpha=0.02, delta=0.05)
    assert str(refused.value) == (
        "`score` must be of at least 149 examples for an error of at most 0.02 with probability "
        "0.95, but got 148."
    )
    just = guaranteed_threshold(np.zeros(149), np.zeros(149), [0.5], alpha=0.02, delta=0.05)
    assert just.threshold == 0.5


@pytest.mark.parametrize("name", ["alpha", "delta"])
@pytest.mark.parametrize("value", [0, 1, -0.1, 1.2, math.nan, "0.1", None, True])
def test_levels_outside_the_open_interval_are_refused(name, value):
    with pytest.raises(BadInput, match=f"`{name}` must be between 0 and 1, exclusively"):
        guaranteed_threshold(np.zeros(500), np.zeros(500), [0.5], **{name: value})


@pytest.mark.parametrize("grid", [[], [0.5, 0.5], [0.6, 0.5], [0.1, math.nan]])
def test_a_grid_that_does_not_rise_is_refused(grid):
    with pytest.raises(BadInput, match="`grid` must be thresholds that rise"):
        guaranteed_threshold(np.zeros(500), np.zeros(500), grid)


# The promise: scores uniform on [0, 1], a known probability of being wrong at each score.


def sample(risk, rng, examples=400):
    score = rng.random(examples)
    return score, rng.random(examples) < risk(score)


def flat(score):
    """Just above what is allowed, everywhere: every threshold that passes is a violation."""
    return np.full_like(score, 0.101)


def rising(score):
    """True error t/5 among the answered: allowed up to t = 0.5."""
    return 0.4 * score


def true_error(risk, threshold):
    fine = (np.arange(2000) + 0.5) / 2000 * threshold
    return risk(fine).mean()


def point_estimate(score, wrong, grid):
    """Planted bug: the observed error instead of its upper bound."""
    found = None
    for t in grid:
        below = score < t
        if wrong[below].mean() > ALPHA:
            break
        found = t
    return found


def best_of_all(score, wrong, grid):
    """Planted bug: the largest threshold that passes, whatever happened at smaller ones."""
    passing = [
        t
        for t in grid
        if upper_bound(int(wrong[score < t].sum()), int((score < t).sum()), DELTA) <= ALPHA
    ]
    return max(passing, default=None)


def honest(score, wrong, grid):
    return guaranteed_threshold(score, wrong, grid, alpha=ALPHA, delta=DELTA).threshold


def violations(choose, risk, grid, repeats, seed=0):
    rng = np.random.default_rng(seed)
    count = 0
    for _ in range(repeats):
        threshold = choose(*sample(risk, rng), grid)
        count += threshold is not None and true_error(risk, threshold) > ALPHA
    return count / repeats


def allowed(repeats):
    # Three standard errors above delta: a false alarm in 1 of 740 seeds at most.
    return DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / repeats)


COARSE = np.linspace(0.2, 1.0, 9)


@pytest.mark.parametrize("risk", [flat, rising])
def test_violations_are_as_rare_as_promised(risk):
    found = violations(honest, risk, GRID, repeats=1000)
    # Not vacuously: the flat case comes near its limit, or as near as whole numbers can.
    assert found > (0.03 if risk is flat else 0.0)
    assert found <= allowed(1000)


def test_the_promise_is_not_kept_by_answering_nothing():
    rng = np.random.default_rng(0)
    found = [honest(*sample(rising, rng), COARSE) for _ in range(50)]
    assert sum(t is not None and t >= 0.2 for t in found) > 25


@pytest.mark.parametrize("bug", [point_estimate, best_of_all])
def test_planted_bugs_break_the_promise(bug):
    assert violations(bug, flat, GRID, repeats=150) > allowed(150)


# Grids and splits.


def test_grid_answers_even_shares_from_enough_on():
    score = np.random.default_rng(0).random(5000)
    grid = coverage_grid(score, 2000, alpha=0.02, delta=0.05, steps=20)
    shares = [(score < t).mean() for t in grid]
    assert shares[0] == pytest.approx(3 * 149 / 2000, abs=1e-3)
    assert shares[-1] == 1.0
    np.testing.assert_allclose(np.diff(shares), np.diff(shares)[0], atol=1e-3)


def test_grid_of_a_constant_score_is_one_threshold():
    grid = coverage_grid(np.full(10, 0.3), 2000)
    assert len(grid) == 1
    assert (np.full(3, 0.3) < grid[0]).all()


def test_splits_keep_the_promise_and_tell_the_coverage():
    rng = np.random.default_rng(0)
    score, wrong = sample(rising, rng, 4000)
    study = calibration_splits(score, wrong, COARSE, alpha=ALPHA, delta=DELTA, splits=200)
    assert study.violations <= allowed(200)
    metrics = study.metrics()
    assert 0.2 < metrics["coverage"] < 0.6
    assert metrics["error"] == pytest.approx(np.nanmean(study.error))
    first = study.threshold[0]
    assert study.error[0] == wrong[score < first].mean()
    assert study.coverage[0] == (score < first).mean()
    again = calibration_splits(score, wrong, COARSE, alpha=ALPHA, delta=DELTA, splits=200)
    assert np.array_equal(study.threshold, again.threshold, equal_nan=True)


def test_splits_that_answer_nothing_have_no_error():
    score = np.random.default_rng(0).random(1000)
    study = calibration_splits(score, np.ones(1000), COARSE, splits=3)
    assert study.metrics() == {
        "violations": 0.0,
        "rest_violations": 0.0,
        "coverage": 0.0,
        "answers_nothing": 1.0,
    }
