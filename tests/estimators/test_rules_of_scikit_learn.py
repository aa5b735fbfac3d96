"""scikit-learn's own checks, and its tools around the estimators."""

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import TransformedTargetRegressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import check_estimator

import sbmc

NOT_EQUIVALENT = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a row of weight 2 enters mini-batches and the rows set aside once, and one that is "
        "repeated does so twice: the likelihoods are equal, the random numbers are not"
    )
}
RNG = np.random.RandomState(0)
X = RNG.randn(60, 3)
NUMBERS = 20 + 3 * X[:, 0] + 0.1 * RNG.randn(60)
NAMES = np.where(X[:, 1] > 0, "yes", "no")
QUICK = {"budget": 0.05, "training_options": {"max_epochs": 60}, "random_state": 0}


@pytest.mark.parametrize("estimator", [sbmc.SBMCClassifier, sbmc.SBMCRegressor])
def test_check_estimator(estimator):
    results = check_estimator(
        estimator(budget=0.05), expected_failed_checks=NOT_EQUIVALENT, on_skip=None
    )
    assert {r["check_name"] for r in results if r["status"] == "xfail"} == set(NOT_EQUIVALENT)
    assert sum(r["status"] == "passed" for r in results) > 50


def test_kinds():
    assert is_classifier(sbmc.SBMCClassifier())
    assert is_regressor(sbmc.SBMCRegressor())


def test_pipeline_with_data_frames_between_its_steps():
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    steps = make_pipeline(MinMaxScaler(), sbmc.SBMCClassifier((8,), **QUICK))
    steps.set_output(transform="pandas").fit(table, NAMES)
    assert steps[-1].feature_names_in_.tolist() == ["a", "b", "c"]
    assert steps.score(table, NAMES) > 0.9


def test_grid_search_over_options_of_the_estimator():
    search = GridSearchCV(
        sbmc.SBMCRegressor(**QUICK),
        {"hidden_layers": [(), (8,)], "likelihood": ["student-t"]},
        cv=2,
    ).fit(X, NUMBERS)
    assert search.best_score_ > 0.9
    assert search.best_estimator_.posterior_.likelihood.base.name == "student-t"


def test_cross_val_predict_gives_probabilities_in_the_order_of_the_classes():
    model = sbmc.SBMCClassifier((8,), **QUICK)
    probabilities = cross_val_predict(model, X, NAMES, method="predict_proba", cv=3)
    assert accuracy_score(NAMES, np.array(["no", "yes"])[probabilities.argmax(1)]) > 0.85


def test_transformed_targets():
    model = TransformedTargetRegressor(
        sbmc.SBMCRegressor((8,), **QUICK), func=np.log, inverse_func=np.exp
    )
    assert r2_score(NUMBERS, model.fit(X, NUMBERS).predict(X)) > 0.9


def test_clone_and_joblib(tmp_path):
    model = sbmc.SBMCRegressor((8,), likelihood="gaussian-network", **QUICK)
    again = clone(model).fit(X, NUMBERS)
    joblib.dump(model.fit(X, NUMBERS), tmp_path / "model.joblib")
    loaded = joblib.load(tmp_path / "model.joblib")
    model.predict(X)  # an evaluator that was compiled before must not be in the way
    joblib.dump(model, tmp_path / "used.joblib")
    for other in (again, loaded, joblib.load(tmp_path / "used.joblib")):
        for one, two in zip(model.predict(X, return_std=True), other.predict(X, True), strict=True):
            np.testing.assert_array_equal(one, two)
