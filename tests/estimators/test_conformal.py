"""MAPIE takes the estimators as they are, and its guarantee holds on the rows it was given."""

import numpy as np
import pytest
from mapie.classification import SplitConformalClassifier
from mapie.regression import ConformalizedQuantileRegressor, SplitConformalRegressor

import sbmc

RNG = np.random.RandomState(3)
X = RNG.randn(200, 2)
Y = X[:, 0] + (0.2 + (X[:, 1] > 0)) * RNG.randn(200)
LABELS = np.where(Y > 0.5, "high", np.where(Y < -0.5, "low", "middle"))
TRAIN, CALIBRATION = slice(80), slice(80, None)
QUICK = {"budget": 0.05, "training_options": {"max_epochs": 60}, "random_state": 0}
LEVEL = 0.8


@pytest.fixture(scope="module")
def regressor():
    model = sbmc.SBMCRegressor((16,), likelihood="gaussian-network", **QUICK)
    return model.fit(X[TRAIN], Y[TRAIN])


def share_inside(intervals):
    inside = (intervals[:, 0, 0] <= Y[CALIBRATION]) & (Y[CALIBRATION] <= intervals[:, 1, 0])
    return inside.mean()


def test_quantile_regression_moves_the_ends_of_our_intervals_by_one_number(regressor):
    quantiles = [regressor.at_quantile(q) for q in ((1 - LEVEL) / 2, (1 + LEVEL) / 2, 0.5)]
    conformal = ConformalizedQuantileRegressor(quantiles, confidence_level=LEVEL, prefit=True)
    conformal.conformalize(X[CALIBRATION], Y[CALIBRATION])
    median, intervals = conformal.predict_interval(X[CALIBRATION])
    np.testing.assert_allclose(median, regressor.predict_quantile(X[CALIBRATION], 0.5))
    moved = intervals[:, :, 0] - regressor.predict_interval(X[CALIBRATION], level=LEVEL)
    np.testing.assert_allclose(moved, np.broadcast_to(moved[0], moved.shape), atol=1e-9)
    # By construction, up to the rows at the ends: each end is a quantile of 120 distances.
    assert LEVEL <= share_inside(intervals) <= LEVEL + 0.1


def test_split_conformal_intervals_have_one_width_around_our_means(regressor):
    conformal = SplitConformalRegressor(regressor, confidence_level=LEVEL, prefit=True)
    conformal.conformalize(X[CALIBRATION], Y[CALIBRATION])
    means, intervals = conformal.predict_interval(X[CALIBRATION])
    np.testing.assert_allclose(means, regressor.predict(X[CALIBRATION]))
    np.testing.assert_allclose(np.diff(intervals[..., 0]).std(), 0, atol=1e-9)
    assert LEVEL <= share_inside(intervals) <= LEVEL + 2 / 120


def test_conformal_sets_hold_the_label():
    classifier = sbmc.SBMCClassifier((16,), **QUICK).fit(X[TRAIN], LABELS[TRAIN])
    conformal = SplitConformalClassifier(classifier, confidence_level=LEVEL, prefit=True)
    conformal.conformalize(X[CALIBRATION], LABELS[CALIBRATION])
    predicted, sets = conformal.predict_set(X[CALIBRATION])
    assert (predicted == classifier.predict(X[CALIBRATION])).all()
    numbered = np.searchsorted(classifier.classes_, LABELS[CALIBRATION])
    share = sets[np.arange(120), numbered, 0].mean()
    assert LEVEL <= share <= LEVEL + 2 / 120
    assert 1 < sets[..., 0].sum(1).mean() < 3
