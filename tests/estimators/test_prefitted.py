"""A posterior of one's own network is a fitted estimator to scikit-learn and MAPIE."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from mapie.classification import SplitConformalClassifier
from mapie.conformity_scores import ResidualNormalisedScore
from mapie.regression import ConformalizedQuantileRegressor, SplitConformalRegressor
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import permutation_importance
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted
from torch import nn

import sbmc
from sbmc.estimators import PosteriorClassifier, PosteriorRegressor, StdPredictor

RUN = {"sampler": sbmc.HMC(steps=5), "particles": 4, "s": 0.3, "seed": 0, "progress": False}
ROWS, DIGITS = load_digits(n_class=3, return_X_y=True)
ROWS = ROWS / 16
NAMES = np.array(["zero", "one", "two"])
IN_ORDER = [1, 2, 0]  # as scikit-learn sorts the names
TRAIN, CALIBRATION, TEST = slice(100), slice(100, 300), slice(300, None)
RNG = np.random.RandomState(5)
X = RNG.randn(500, 3)
Y = X[:, 0] + (0.2 + (X[:, 1] > 0)) * RNG.randn(500)
LEVEL = 0.8


@pytest.fixture(scope="module")
def of_pictures():
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
    )
    pictures = torch.tensor(ROWS[TRAIN], dtype=torch.float32).view(-1, 1, 8, 8)
    data = pictures, torch.tensor(DIGITS[TRAIN])
    trained = sbmc.train_map(network, data, max_epochs=30, learning_rate=0.01, progress=False)
    return sbmc.fit(trained, data, **RUN)


@pytest.fixture(scope="module")
def of_numbers():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
    data = torch.tensor(X[TRAIN]).float(), torch.tensor(Y[TRAIN]).float()
    options = {"likelihood": "gaussian-network", "progress": False}
    trained = sbmc.train_map(network, data, max_epochs=100, learning_rate=0.01, **options)
    return sbmc.fit(trained, data, **{**RUN, **options})


@pytest.fixture(scope="module")
def classifier(of_pictures):
    return sbmc.as_estimator(of_pictures, classes=NAMES)


@pytest.fixture(scope="module")
def regressor(of_numbers):
    return sbmc.as_estimator(of_numbers)


def test_a_classifier_says_what_the_posterior_says(of_pictures, classifier):
    pictures = ROWS[TEST].reshape(-1, 1, 8, 8)
    predicted = of_pictures.predict(torch.tensor(pictures))
    # Rows of a table are the pictures in another shape.
    for given in (ROWS[TEST], pictures, pd.DataFrame(ROWS[TEST]), pictures.tolist()):
        found = classifier.predict_proba(given)
        np.testing.assert_array_equal(found, predicted.probs[:, IN_ORDER])
    assert (classifier.predict(ROWS[TEST]) == NAMES[predicted.probs.argmax(1)]).all()
    logarithms = classifier.predict_log_proba(ROWS[TEST])
    np.testing.assert_allclose(np.exp(logarithms), predicted.probs[:, IN_ORDER])
    assert (classifier.predictive(ROWS[TEST]).epistemic == predicted.epistemic).all()
    assert classifier.classes_.tolist() == ["one", "two", "zero"]
    assert classifier.n_features_in_ == 64
    accuracy = accuracy_score(NAMES[DIGITS[TEST]], classifier.predict(ROWS[TEST]))
    assert classifier.score(ROWS[TEST], NAMES[DIGITS[TEST]]) == accuracy > 0.9
    # Without names, classes are numbered; integers are as good as the same numbers.
    numbered = sbmc.as_estimator(of_pictures)
    assert numbered.classes_.tolist() == [0, 1, 2]
    whole = (16 * ROWS[TEST]).astype(int)
    np.testing.assert_array_equal(
        numbered.predict_proba(whole), numbered.predict_proba(whole.astype(float))
    )


def test_a_regressor_says_what_the_posterior_says(of_numbers, regressor):
    predicted = of_numbers.predict(torch.tensor(X[TEST]))
    mean, std = regressor.predict(X[TEST], return_std=True)
    np.testing.assert_array_equal(mean, predicted.mean[:, 0])
    np.testing.assert_allclose(std**2, predicted.variance[:, 0])
    np.testing.assert_array_equal(regressor.predict(X[TEST]), mean)
    ends = np.column_stack(predicted.interval(LEVEL))
    np.testing.assert_allclose(regressor.predict_interval(X[TEST], level=LEVEL), ends)
    np.testing.assert_allclose(
        regressor.at_quantile(0.9).predict(X[TEST]), predicted.quantile(0.9)[:, 0]
    )
    for part in ("total", "aleatoric", "epistemic"):
        deviation = regressor.as_std(part).predict(X[TEST])
        np.testing.assert_allclose(deviation**2, getattr(predicted, part)[:, 0])
    assert regressor.score(X[TEST], Y[TEST]) == r2_score(Y[TEST], mean) > 0.3


def test_several_outputs_stay_columns():
    data = torch.tensor(X[TRAIN]).float(), torch.tensor(X[TRAIN, :2]).float()
    posterior = sbmc.fit(nn.Linear(3, 2), data, likelihood="gaussian", **RUN)
    regressor = sbmc.as_estimator(posterior)
    assert regressor.predict(X).shape == (500, 2)
    assert regressor.predict_interval(X).shape == (500, 2, 2)
    assert regressor.as_std().predict(X).shape == (500, 2)


def test_clones_keep_what_was_sampled(classifier, regressor):
    for estimator, rows in ((classifier, ROWS[TEST]), (regressor, X[TEST])):
        check_is_fitted(estimator)
        assert clone(estimator) is estimator
        again = pickle.loads(pickle.dumps(estimator))
        np.testing.assert_array_equal(again.predict(rows), estimator.predict(rows))
    assert is_classifier(classifier)
    assert is_regressor(regressor)
    assert isinstance(classifier, PosteriorClassifier)
    assert isinstance(regressor, PosteriorRegressor)
    assert set(classifier.get_params()) == {"posterior", "classes"}
    renamed = PosteriorClassifier(classifier.posterior).set_params(classes=["a", "b", "c"])
    assert set(renamed.predict(ROWS)) == {"a", "b", "c"}
    spread = clone(regressor.as_std("aleatoric"))
    assert isinstance(spread, StdPredictor)
    assert (spread.part, spread.regressor) == ("aleatoric", regressor)


def test_tools_of_scikit_learn_take_it(classifier, regressor):
    labels = NAMES[DIGITS]
    calibrated = CalibratedClassifierCV(FrozenEstimator(classifier), cv=3)
    calibrated.fit(ROWS[CALIBRATION], labels[CALIBRATION])
    assert (calibrated.classes_ == np.sort(NAMES)).all()
    assert calibrated.score(ROWS[TEST], labels[TEST]) > 0.9
    scores = cross_val_score(FrozenEstimator(classifier), ROWS[TEST], labels[TEST], cv=3)
    np.testing.assert_allclose(scores.mean(), classifier.score(ROWS[TEST], labels[TEST]), atol=0.02)
    found = permutation_importance(regressor, X[TEST], Y[TEST], n_repeats=5, random_state=0)
    assert found.importances_mean.argmax() == 0  # the mean depends on the first column alone
    doubled = make_pipeline(FunctionTransformer(lambda rows: 2 * rows), regressor)
    np.testing.assert_array_equal(doubled.predict(X[TEST] / 2), regressor.predict(X[TEST]))


def test_conformal_intervals_are_as_wide_as_the_posterior_is_unsure(regressor):
    score = ResidualNormalisedScore(regressor.as_std(), prefit=True)
    conformal = SplitConformalRegressor(
        regressor, confidence_level=LEVEL, conformity_score=score, prefit=True
    )
    conformal.conformalize(X[CALIBRATION], Y[CALIBRATION])
    means, intervals = conformal.predict_interval(X[CALIBRATION])
    mean, std = regressor.predict(X[CALIBRATION], return_std=True)
    np.testing.assert_allclose(means, mean)
    half = np.diff(intervals[..., 0])[:, 0] / 2
    # The width is the standard deviation, times the quantile of the scaled residuals.
    ratio = np.abs(Y[CALIBRATION] - mean) / std
    smallest = np.sort(ratio)[int(np.ceil(LEVEL * 201)) - 1]
    np.testing.assert_allclose(half / std, smallest)
    inside = np.abs(Y[CALIBRATION] - mean) <= half * (1 + 1e-12)
    assert LEVEL <= inside.mean() <= LEVEL + 2 / 200
    assert std.max() > 2 * std.min()


def test_conformal_quantiles_and_sets_of_ones_own_network(classifier, regressor):
    quantiles = [regressor.at_quantile(q) for q in ((1 - LEVEL) / 2, (1 + LEVEL) / 2, 0.5)]
    conformal = ConformalizedQuantileRegressor(quantiles, confidence_level=LEVEL, prefit=True)
    conformal.conformalize(X[CALIBRATION], Y[CALIBRATION])
    _, intervals = conformal.predict_interval(X[CALIBRATION])
    moved = intervals[..., 0] - regressor.predict_interval(X[CALIBRATION], level=LEVEL)
    np.testing.assert_allclose(moved, np.broadcast_to(moved[0], moved.shape), atol=1e-9)
    sets = SplitConformalClassifier(classifier, confidence_level=0.95, prefit=True)
    sets.conformalize(ROWS[CALIBRATION], NAMES[DIGITS[CALIBRATION]])
    predicted, inside = sets.predict_set(ROWS[CALIBRATION])
    assert (predicted == classifier.predict(ROWS[CALIBRATION])).all()
    covered = inside[np.arange(200), np.argsort(IN_ORDER)[DIGITS[CALIBRATION]], 0].mean()
    assert 0.95 <= covered <= 0.95 + 2 / 200


def refused(call, *words):
    with pytest.raises(sbmc.BadInput) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


def test_what_is_no_fitted_estimator_is_refused_in_words(of_pictures, of_numbers, regressor):
    refused(lambda: sbmc.as_estimator(sbmc.SBMCRegressor()), "`posterior`", "already")
    refused(lambda: sbmc.as_estimator(nn.Linear(2, 2)), "`posterior`", "sbmc.fit")
    refused(lambda: sbmc.as_estimator(of_numbers, classes=["a"]), "`classes`", "numbers")
    for labels in (["a", "b"], ["a", "b", "b"], "abc", 3):
        refused(lambda labels=labels: sbmc.as_estimator(of_pictures, classes=labels), "`classes`")
    refused(lambda: regressor.fit(X, Y), "`fit`", "FrozenEstimator", "SBMCRegressor(module=...)")
    refused(lambda: regressor.predict(X[:, :2]), "`X`", "(500, 2)")
    refused(lambda: regressor.predict(X[:, 0]), "`X`", "(500,)")
    refused(lambda: regressor.predict(np.full((2, 3), "a")), "`X`", "numbers")
    refused(lambda: regressor.as_std("noise"), "`part`", "aleatoric")
    with pytest.raises(ValueError, match="NaN"):
        regressor.predict(np.full((2, 3), np.nan))


def test_networks_of_several_inputs_or_labels_are_refused():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def forward(self, first, second):
            return self.linear(first + second)

    inputs = torch.tensor(X[TRAIN]).float()
    labels = (inputs[:, 0] > 0).long()
    pair = sbmc.fit(Pair(), ((inputs, inputs), labels), **RUN)
    refused(lambda: sbmc.as_estimator(pair), "`posterior`", "several inputs")
    both = (inputs[:, :2] > 0).float()
    several = sbmc.fit(nn.Linear(3, 2), (inputs, both), likelihood="multi-label", **RUN)
    refused(lambda: sbmc.as_estimator(several), "`posterior`", "one class for each input")


def test_posteriors_that_have_not_seen_inputs_learn_their_shape():
    inputs = torch.tensor(X[TRAIN]).float()
    short = {"members": 2, "max_epochs": 1, "progress": False}
    data = inputs, (inputs[:, 0] > 0).long()
    posterior = sbmc.train_ensemble(nn.Linear(3, 2), data, **short).posterior()
    classifier = sbmc.as_estimator(posterior)
    assert not hasattr(classifier, "n_features_in_")
    assert classifier.predict(X).shape == (500,)
    assert (classifier.n_features_in_, classifier.classes_.tolist()) == (3, [0, 1])


def test_names_that_a_file_of_the_command_line_has_are_used():
    from sbmc.datasets.files import TextTable
    from sbmc.estimators import fit_table

    names = ["no" if row < 12 else "yes" for row in range(24)]
    cells = TextTable({"x": [str(row / 10) for row in range(24)], "label": names}, "rows.csv")
    posterior = fit_table(cells, hidden_layers=(2,), budget=0.1)
    assert sbmc.as_estimator(posterior).classes_.tolist() == ["no", "yes"]
