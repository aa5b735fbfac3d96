"""Answer or abstain: the two-level estimator and the risk-coverage curve."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import accuracy_score

from sbmc.checks import BadInput
from sbmc.confidence.decisions import risk_coverage, two_level_accuracy


def scored(examples=50, seed=0):
    rng = np.random.default_rng(seed)
    wrong = rng.random(examples) < 0.4
    return (rng.random(examples) + wrong).round(1) / 2, wrong


def test_two_level_accuracy_against_a_loop():
    score, wrong = scored()
    thresholds = np.linspace(0, 1.1, 23)
    expected = []
    for t in thresholds:
        right = 0
        for s, w in zip(score, wrong, strict=True):
            answers = s < t
            # An answer is right when the model is; an abstention when the model is not.
            right += (not w) if answers else w
        expected.append(right / len(score))
    np.testing.assert_allclose(two_level_accuracy(score, wrong, thresholds), expected, atol=1e-15)
    # It is the meta-classifier's accuracy, whose class 1 is "abstain".
    assert two_level_accuracy(score, wrong, [0.5])[0] == accuracy_score(wrong, score >= 0.5)


def test_answering_all_and_nothing():
    score, wrong = scored()
    nothing, everything = two_level_accuracy(score, wrong, [0.0, np.inf])
    assert nothing == wrong.mean()
    assert everything == 1 - wrong.mean()


def test_risk_is_zero_until_the_first_error():
    curve = risk_coverage([0.1, 0.2, 0.3, 0.4], [False, False, True, True])
    assert curve.coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert curve.risk.tolist() == [0.0, 0.0, 1 / 3, 0.5]
    assert curve.area == pytest.approx((1 / 3 + 1 / 2) / 4)


def test_area_is_the_mean_over_all_orders_of_equals():
    score, wrong = [0.1, 0.5, 0.5, 0.5, 0.9], [False, True, False, False, True]
    areas = []
    for order in itertools.permutations([1, 2, 3]):
        flags = np.array([wrong[0], *[wrong[i] for i in order], wrong[4]])
        areas.append((np.cumsum(flags) / np.arange(1, 6)).mean())
    curve = risk_coverage(score, wrong)
    assert curve.area == pytest.approx(np.mean(areas), abs=1e-15)
    assert curve.coverage.tolist() == [0.2, 0.8, 1.0]


def test_order_of_examples_does_not_matter():
    score, wrong = scored()
    order = np.random.default_rng(1).permutation(len(score))
    assert risk_coverage(score, wrong).area == risk_coverage(score[order], wrong[order]).area
    # A score that says nothing has the share of wrong inputs as its area.
    assert risk_coverage(np.ones(50), wrong).area == pytest.approx(wrong.mean())


def test_a_better_score_has_a_smaller_area():
    score, wrong = scored(200)
    assert risk_coverage(wrong + 0.0, wrong).area < risk_coverage(score, wrong).area
    # A planted bug, the score upside down, is seen.
    assert risk_coverage(-score, wrong).area > wrong.mean()


@pytest.mark.parametrize(
    ("score", "wrong", "message"),
    [
        ([], [], "`score` must be of shape .*, with at least one"),
        ([[0.1]], [[True]], "`score` must be of shape"),
        ([0.1, np.nan], [True, False], "`score` must be finite"),
        ([0.1, 0.2], [True], r"`wrong` must be of the shape of the scores, \(2,\)"),
        ([0.1, 0.2], [0.5, 1.0], "`wrong` must be true or false"),
    ],
)
def test_bad_input_is_refused(score, wrong, message):
    for function in (risk_coverage, lambda s, w: two_level_accuracy(s, w, [0.5])):
        with pytest.raises(BadInput, match=message):
            function(score, wrong)
