"""Methods of the study: one recipe for all networks, the right units, packages that are missing."""

import sys
import textwrap
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

import sbmc
from sbmc_studies.tables import running
from sbmc_studies.tables.methods import METHODS, NotSupported, bayesian_ensembles, boosting
from sbmc_studies.tables.recipe import fresh_network, predict_posterior, prepare, train_members
from sbmc_studies.tables.scoring import score_regression


class Reached(Exception):
    """The estimator has come to its training."""


@pytest.mark.parametrize("name", ["yacht", "airfoil", "glass"])
def test_the_recipe_is_that_of_our_estimators(name, prepared_of, monkeypatch):
    """Scaling, rows, initial weights, likelihood and seed are those of the estimator's training."""
    prepared, seen = prepared_of(name, 1), {}

    def training(network, train, validation, **options):
        seen.update(network=network, train=train, validation=validation, options=options)
        raise Reached

    monkeypatch.setattr("sbmc.estimators.base.train_map", training)
    with pytest.raises(Reached):
        METHODS["sbmc"](prepared)
    if prepared.split.is_classification:
        for ours, theirs in (("train", prepared.train), ("validation", prepared.aside)):
            assert all(map(torch.equal, seen[ours], theirs))
    else:  # the regressor trains on all rows, of which others set some aside to stop on
        assert seen["validation"] is None
        inputs, targets = seen["train"]
        assert torch.equal(inputs, prepared.scaled_inputs(prepared.split.train_inputs))
        assert torch.equal(inputs[prepared.train_rows], prepared.train[0])
        assert torch.equal(targets[prepared.train_rows].flatten(), prepared.train[1])
    fresh = fresh_network(prepared).state_dict()
    assert fresh.keys() == seen["network"].state_dict().keys()
    for key, value in seen["network"].state_dict().items():
        assert torch.equal(value, fresh[key])
    options = seen["options"]
    assert options["likelihood"] == prepared.likelihood
    assert options["seed"] == prepared.seed
    assert prepared.training["batch_size"] == options["batch_size"]
    # Ours may end sooner, never later.
    assert prepared.training["max_epochs"] >= options["max_epochs"]


def test_the_first_member_of_an_ensemble_is_the_network(prepared_of, short_training):
    prepared = prepared_of("yacht")
    one, several = train_members(prepared, 1), train_members(prepared, 3)
    assert several.positions.shape[0] == 3
    assert torch.allclose(one.positions[0], several.positions[0], atol=1e-5)
    assert not torch.allclose(several.positions[0], several.positions[1], atol=1e-2)


def test_predictions_are_in_the_units_of_the_targets(split_of, short_training):
    """With targets 50 y + 7, NLL grows by log 50, and lengths 50 times; planted bugs would show."""
    split = split_of("yacht")
    other = split.__class__(
        split.table_set,
        split.number,
        split.train_inputs,
        50 * split.train_targets + 7,
        split.test_inputs,
        50 * split.test_targets + 7,
    )
    found = []
    for each in (split, other):
        prepared = prepare(each)
        posterior = train_members(prepared, 2).posterior()
        predicted = predict_posterior(posterior, prepared, each.test_inputs)
        found.append(score_regression(predicted, each.test_targets))
    before, after = found
    assert after["nll"] == pytest.approx(before["nll"] + np.log(50), abs=1e-4)
    assert after["nll_moments"] == pytest.approx(before["nll_moments"] + np.log(50), abs=1e-4)
    for column in ("rmse", "crps", "width_90", "width_95"):
        assert after[column] == pytest.approx(50 * before[column], rel=1e-4)
    assert after["cover_90"] == before["cover_90"]


@pytest.mark.parametrize("name", ["yacht", "glass"])
@pytest.mark.parametrize("method", ["network", "ensemble-5", "mc-dropout"])
def test_networks_predict_every_kind_of_table(name, method, prepared_of, short_training):
    prepared = prepared_of(name)
    found = METHODS[method](prepared)
    predicted = found.predict(prepared.split.test_inputs)
    rows = len(prepared.split.test_targets)
    if prepared.split.is_classification:
        assert predicted.shape == (rows, 3)
        assert torch.allclose(predicted.sum(1), torch.ones(rows, dtype=torch.float64))
    else:
        assert np.isfinite(score_regression(predicted, prepared.split.test_targets)["nll"])
    if method == "mc-dropout":
        assert found.about["rate"] in (0.01, 0.05, 0.1)


def test_our_estimator_gives_the_scores_of_its_own_predictions(prepared_of, monkeypatch):
    made = []

    class Noted(sbmc.SBMCRegressor):
        def fit(self, X, y):
            made.append(self)
            return super().fit(X, y)

    monkeypatch.setattr(sbmc, "SBMCRegressor", Noted)
    prepared = prepared_of("yacht")
    short = replace(prepared.split.table_set, budget="1s")
    split = replace(prepared.split, table_set=short)
    found = METHODS["sbmc"](replace(prepared, split=split))
    scores = score_regression(found.predict(split.test_inputs), split.test_targets)
    hidden = split.table_set.hidden
    model = made[-1]
    assert model.get_params()["hidden_layers"] == hidden
    assert (model.budget, model.random_state) == ("1s", 0)
    mean, deviation = model.predict(split.test_inputs, return_std=True)
    expected = -stats.norm(mean, deviation).logpdf(split.test_targets).mean()
    assert scores["nll_moments"] == pytest.approx(expected, rel=1e-6)
    lower, upper = model.predict_interval(split.test_inputs, level=0.95).T
    assert scores["width_95"] == pytest.approx((upper - lower).mean(), rel=1e-6)
    assert found.about["epochs"] == model.n_epochs_


@pytest.mark.parametrize("method", ["catboost", "xgboost", "laplace", "bde"])
def test_a_method_without_its_package_says_what_is_missing(method, prepared_of, monkeypatch):
    for module in ("catboost", "xgboost", "laplace"):
        monkeypatch.setitem(sys.modules, module, None)  # not installed
    monkeypatch.delenv(bayesian_ensembles.VARIABLE, raising=False)
    with pytest.raises(NotSupported, match=r"pip install|names no Python"):
        METHODS[method](prepared_of("airfoil"))


def test_the_variance_of_xgboost_is_that_of_its_errors_on_rows_set_aside(prepared_of, monkeypatch):
    prepared = prepared_of("yacht")
    asked = []

    class Regressor:
        best_iteration = 6

        def __init__(self, **settings):
            assert settings["random_state"] == 0

        def fit(self, inputs, targets, eval_set, verbose):
            self.mean = targets.mean()
            assert len(eval_set[0][1]) == len(prepared.aside_rows)
            assert len(targets) == len(prepared.train_rows)

        def predict(self, inputs):
            asked.append(len(inputs))
            return np.full(len(inputs), self.mean, dtype=np.float32)

    package = SimpleNamespace(XGBRegressor=Regressor)
    monkeypatch.setattr(boosting, "load_package", lambda *names: package)
    found = METHODS["xgboost"](prepared)
    predicted = found.predict(prepared.split.test_inputs)
    _, train = prepared.raw(prepared.train_rows)
    _, aside = prepared.raw(prepared.aside_rows)
    assert predicted.mean.numpy() == pytest.approx(np.full(6, train.mean()), rel=1e-6)
    expected = ((aside - train.mean()) ** 2).mean()
    assert predicted.variance.numpy() == pytest.approx(np.full(6, expected), rel=1e-5)
    assert found.about == {"trees": 7}
    assert asked == [len(aside), 6]


def test_catboost_gives_mean_and_variance_and_classes_in_their_order(prepared_of, monkeypatch):
    class Model:
        tree_count_ = 3
        classes_ = np.array([2, 0])  # one class was not trained on

        def __init__(self, loss_function, **settings):
            self.loss = loss_function

        def fit(self, inputs, targets, eval_set, early_stopping_rounds):
            assert len(eval_set) == 2

        def predict(self, inputs, prediction_type):
            assert (self.loss, prediction_type) == ("RMSEWithUncertainty",) * 2
            return np.tile([3.0, 4.0], (len(inputs), 1))

        def predict_proba(self, inputs):
            return np.tile([0.75, 0.25], (len(inputs), 1))

    package = SimpleNamespace(CatBoostRegressor=Model, CatBoostClassifier=Model)
    monkeypatch.setattr(boosting, "load_package", lambda *names: package)
    numbers = METHODS["catboost"](prepared_of("yacht")).predict(np.zeros((2, 6)))
    assert numbers.mean.tolist() == [3.0, 3.0]
    assert numbers.variance.tolist() == [4.0, 4.0]
    classes = METHODS["catboost"](prepared_of("glass")).predict(np.zeros((1, 9)))
    assert classes.tolist() == [[0.25, 0.0, 0.75]]


BDE = """
    import numpy as np

    class BdeRegressor:
        def __init__(self, n_members, n_samples, hidden_layers, seed, **settings):
            assert hidden_layers == [16, 16, 16, 16]
            self.shape = n_members, 2

        def fit(self, x, y):
            assert abs(y.mean()) < 1e-5 and abs(y.std() - 1) < 1e-4

        def predict(self, x, raw):
            assert raw
            found = np.zeros((*self.shape, len(x), 2))
            found[..., 0] = 0.5
            return found
"""


def test_bde_runs_in_a_python_of_its_own(prepared_of, monkeypatch, tmp_path):
    (tmp_path / "bde.py").write_text(textwrap.dedent(BDE))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv(bayesian_ensembles.VARIABLE, sys.executable)
    prepared = prepared_of("airfoil")
    found = METHODS["bde"](prepared)
    predicted = found.predict(prepared.split.test_inputs)
    assert predicted.components.loc.shape == (20, len(prepared.split.test_targets))
    assert predicted.mean.numpy() == pytest.approx(np.full(12, 0.5), abs=1e-6)
    # softplus(0) is log 2, and targets are in units of the training rows already.
    assert predicted.variance.numpy() == pytest.approx(np.full(12, np.log(2) ** 2), rel=1e-4)
    with pytest.raises(ValueError, match="test rows"):
        found.predict(prepared.split.train_inputs)
    (tmp_path / "bde.py").write_text("raise SystemError('no jax here')")
    with pytest.raises(RuntimeError, match="no jax here"):
        METHODS["bde"](prepared)


def test_laplace_is_measured_or_missing_with_a_reason(prepared_of, short_training):
    """Its intervals are wider than those of the noise alone, in the units of the targets."""
    prepared = prepared_of("yacht")
    result = running._measure(prepared, "laplace")
    if "missing" in result:
        assert "pip install" in result["missing"]
    else:
        noise = result["about"]["noise"] * prepared.target_scaler.scale_.item()
        assert result["scores"]["width_95"] > 2 * 1.959 * noise > 0
