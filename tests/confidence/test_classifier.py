"""The meta-classifier: scikit-learn's rules, thresholds, and data it cannot learn from."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import f1_score
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sbmc.checks import BadInput
from sbmc.confidence.classifier import ConfidenceClassifier
from sbmc.confidence.thresholds import f1_threshold


def overlapping(examples=300, seed=0, positives=0.3):
    """Two classes that overlap, one of them rare: 0.5 is not the best threshold for F1."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(examples) < positives).astype(int)
    return rng.normal(size=(examples, 7)) + 0.7 * truth[:, None] * np.arange(7) / 6, truth


@parametrize_with_checks(
    [
        ConfidenceClassifier(0.5, max_iter=40, random_state=0),
        ConfidenceClassifier("f1", max_iter=100, random_state=0),
    ]
)
def test_estimator_rules(estimator, check):
    check(estimator)


def test_it_is_a_standardised_network_of_fifty():
    features, truth = overlapping()
    mine = ConfidenceClassifier(max_iter=40, random_state=3).fit(features, truth)
    network = MLPClassifier((50,), max_iter=40, random_state=3)
    with pytest.warns(ConvergenceWarning):
        reference = make_pipeline(StandardScaler(), network).fit(features, truth)
    assert (mine.n_iter_, mine.converged_) == (40, False)
    assert np.array_equal(mine.predict_proba(features), reference.predict_proba(features))
    assert mine.network_[-1].coefs_[0].shape == (7, 50)
    assert np.array_equal(mine.predict(features), reference.predict(features))


def test_the_seed_decides():
    features, truth = overlapping()
    make = ConfidenceClassifier(max_iter=20, random_state=1)
    first = clone(make).fit(features, truth).predict_proba(features)
    assert np.array_equal(first, clone(make).fit(features, truth).predict_proba(features))
    other = clone(make).set_params(random_state=2).fit(features, truth)
    assert not np.array_equal(first, other.predict_proba(features))


def test_scale_and_offset_of_features_do_not_matter():
    features, truth = overlapping()
    moved = features * 2.0 ** np.arange(7) - 4.0
    first = ConfidenceClassifier(max_iter=50, random_state=0).fit(features, truth)
    second = ConfidenceClassifier(max_iter=50, random_state=0).fit(moved, truth)
    np.testing.assert_allclose(
        first.predict_proba(features), second.predict_proba(moved), rtol=0, atol=1e-6
    )


# Thresholds.


def test_at_the_threshold_it_abstains():
    features, truth = overlapping()
    classifier = ConfidenceClassifier(max_iter=50, random_state=0).fit(features, truth)
    score = classifier.predict_proba(features)[:, 1]
    classifier.threshold_ = float(np.sort(score)[-10])
    assert classifier.predict(features).sum() == 10


@pytest.mark.parametrize("seed", range(5))
def test_f1_threshold_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    truth = rng.random(60) < 0.4
    score = (rng.normal(size=60) + truth).round(1)  # with ties
    best = f1_threshold(truth, score)
    every = [f1_score(truth, score >= t) for t in np.unique(score)]
    assert f1_score(truth, score >= best) == max(every)
    assert best == np.unique(score)[np.argmax(every)]


def test_f1_threshold_is_no_worse_than_scikit_learns_grid():
    features, truth = overlapping()
    more, more_truth = overlapping(seed=1)
    classifier = ConfidenceClassifier(max_iter=50, random_state=0).fit(features, truth)
    score = classifier.predict_proba(more)[:, 1]
    grid = TunedThresholdClassifierCV(
        FrozenEstimator(classifier), scoring="f1", cv="prefit", refit=False
    ).fit(more, more_truth)
    found = f1_score(more_truth, score >= f1_threshold(more_truth, score))
    assert found >= grid.best_score_
    assert found - grid.best_score_ < 0.02


def test_f1_threshold_in_fit_comes_from_held_out_probabilities():
    features, truth = overlapping(200)
    tuned = ConfidenceClassifier("f1", random_state=0).fit(features, truth)
    # A network that has seen its examples is nearly perfect on them, and 0.5 nearly the best.
    # (Planted bug: a threshold from its own training data would give the second number.)
    own = f1_threshold(truth, tuned.predict_proba(features)[:, 1])
    assert tuned.threshold_ != own
    more, more_truth = overlapping(2000, seed=1)
    score = tuned.predict_proba(more)[:, 1]
    held_out = f1_score(more_truth, score >= tuned.threshold_)
    assert held_out > f1_score(more_truth, score >= own) + 0.02
    assert np.array_equal(tuned.predict(more), score >= tuned.threshold_)


# Bad input.


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_is_refused(label):
    with pytest.raises(BadInput) as refused:
        ConfidenceClassifier().fit(np.eye(7), np.full(7, label))
    assert "`y` must be of two classes" in str(refused.value)
    assert f"the one class {label}" in str(refused.value).replace("np.int64(", "").replace(")", "")


@pytest.mark.parametrize("threshold", [-0.1, 1.5, "f2", None, True, float("nan")])
def test_other_thresholds_are_refused(threshold):
    features, truth = overlapping(20)
    with pytest.raises(BadInput, match="`threshold` must be a number from 0 to 1, or 'f1'"):
        ConfidenceClassifier(threshold).fit(features, truth)


@pytest.mark.parametrize("name", ["hidden", "max_iter"])
def test_other_settings_are_refused(name):
    features, truth = overlapping(20)
    with pytest.raises(BadInput, match=f"`{name}` must be a positive integer, but got 0"):
        ConfidenceClassifier(**{name: 0}).fit(features, truth)


def test_constant_features_do_no_harm():
    features, truth = overlapping()
    features[:, 4:] = 0.0  # as for a point estimate
    classifier = ConfidenceClassifier(max_iter=100, random_state=0).fit(features, truth)
    assert np.isfinite(classifier.predict_proba(features)).all()
    assert classifier.score(features, truth) > 0.7


def test_nothing_but_constant_features_gives_the_share_and_a_warning():
    truth = np.arange(200) % 4 == 0
    with pytest.warns(UserWarning, match="All features are constant"):
        classifier = ConfidenceClassifier(random_state=0).fit(np.ones((200, 7)), truth)
    score = classifier.predict_proba(np.ones((3, 7)))[:, 1]
    np.testing.assert_allclose(score, 0.25, atol=0.03)


def test_f1_with_a_single_incorrect_prediction_is_refused():
    features, _ = overlapping(20)
    with pytest.raises(BadInput, match=r"at least two examples each .* but got 1 of one class"):
        ConfidenceClassifier("f1").fit(features, np.arange(20) == 3)


def test_no_positive_has_no_f1_threshold():
    with pytest.raises(BadInput, match="`truth` must be of both classes"):
        f1_threshold([0, 0], [0.1, 0.2])
