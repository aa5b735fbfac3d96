import warnings

import numpy as np
import pytest
import torch
from sklearn.metrics import r2_score
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.estimators import defaults
from sbmc.fitting import long_chains

RNG = np.random.RandomState(2)
X = RNG.randn(80, 2)
Y = 50 + 8 * X[:, 0] + RNG.randn(80)
QUICK = {"budget": 0.05, "training_options": {"max_epochs": 80}, "random_state": 0}
LIKELIHOODS = ["gaussian", "gaussian-network", "student-t"]


@pytest.fixture(scope="module", params=LIKELIHOODS)
def fitted(request):
    return sbmc.SBMCRegressor((16,), likelihood=request.param, **QUICK).fit(X, Y)


def test_all_that_is_predicted_is_in_the_units_of_the_targets(fitted):
    mean, deviation = fitted.predict(X, return_std=True)
    assert r2_score(Y, mean) == pytest.approx(fitted.score(X, Y))
    assert fitted.score(X, Y) > 0.9
    assert 0.5 < np.median(deviation) < 5
    interval = fitted.predict_interval(X, level=0.9)
    assert interval.shape == (80, 2)
    assert (interval[:, 0] < mean).all()
    assert (mean < interval[:, 1]).all()
    np.testing.assert_allclose(fitted.predict_quantile(X, [0.05, 0.95]), interval)
    np.testing.assert_allclose(fitted.predict_quantile(X, 0.05), interval[:, 0])


def test_the_prediction_agrees_with_itself(fitted):
    # The density of the mixture is the derivative of its distribution function, whose inverse
    # gives the quantiles: three ways through the change of units.
    prediction = fitted.predictive(X)
    step = 1e-4
    slope = (prediction.cdf(Y + step) - prediction.cdf(Y - step)) / (2 * step)
    np.testing.assert_allclose(prediction.log_prob(Y).exp(), slope[:, 0], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(prediction.cdf(prediction.quantile(0.3)), 0.3, atol=1e-9)
    draws = prediction.sample(4_000)
    np.testing.assert_allclose(draws.mean(0), prediction.mean, atol=0.5)


def test_units_change_nothing_but_units(fitted):
    # Powers of two, so that standardised numbers have the same bits.
    model = sbmc.SBMCRegressor((16,), likelihood=fitted.likelihood, **QUICK).fit(4 * X, 16 * Y)
    np.testing.assert_allclose(model.predict(4 * X), 16 * fitted.predict(X), rtol=1e-12)
    np.testing.assert_allclose(
        model.predict_interval(4 * X), 16 * fitted.predict_interval(X), rtol=1e-9
    )
    densities = model.predictive(4 * X).log_prob(16 * Y)
    expected = fitted.predictive(X).log_prob(Y) - np.log(16)
    np.testing.assert_allclose(densities, expected, rtol=1e-9)
    scores = model.predictive(4 * X).crps(16 * Y)
    np.testing.assert_allclose(scores, 16 * fitted.predictive(X).crps(Y), rtol=1e-6)


def test_large_means_and_small_spreads_keep_their_digits():
    model = sbmc.SBMCRegressor((16,), **QUICK).fit(X + 1e7, Y + 1e9)
    assert model.score(X + 1e7, Y + 1e9) > 0.9
    assert model.predict(X + 1e7, return_std=True)[1].max() < 10


def test_several_targets():
    targets = np.column_stack([Y, -100 * Y, X[:, 1]])
    model = sbmc.SBMCRegressor((16,), likelihood="gaussian-network", **QUICK).fit(X, targets)
    mean, deviation = model.predict(X, return_std=True)
    assert mean.shape == deviation.shape == (80, 3)
    assert 30 < np.median(deviation[:, 1]) / np.median(deviation[:, 0]) < 300
    assert model.predict_interval(X).shape == (80, 3, 2)
    assert model.predict_quantile(X, 0.5).shape == (80, 3)
    assert model.score(X, targets) > 0.8


def test_a_column_of_targets_comes_back_as_a_column():
    column = sbmc.SBMCRegressor((4,), **QUICK).fit(X, Y[:, None]).predict(X)
    flat = sbmc.SBMCRegressor((4,), **QUICK).fit(X, Y).predict(X)
    assert column.shape == (80, 1)
    np.testing.assert_array_equal(column[:, 0], flat)


def test_weights_count_rows():
    # Nothing but the bias can tell rows apart, so that it learns their weighted mean.
    targets = np.array([0.0, 1.0] * 100)
    model = sbmc.SBMCRegressor((), random_state=0, budget=1)
    model.fit(np.zeros((200, 1)), targets, sample_weight=np.where(targets, 9.0, 1.0))
    mean, deviation = model.predict([[0.0]], return_std=True)
    assert mean[0] == pytest.approx(0.9, abs=0.02)
    assert deviation[0] == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize(
    ("likelihood", "variance"),
    [(sbmc.Gaussian(noise_variance=4.0), 4.0), (sbmc.StudentT(df=4.0, scale=3.0), 18.0)],
)
def test_known_noise_is_in_the_units_of_the_targets(likelihood, variance):
    model = sbmc.SBMCRegressor((8,), likelihood=likelihood, **QUICK).fit(X, Y)
    np.testing.assert_allclose(model.predictive(X).aleatoric, variance, rtol=1e-9)


def test_a_callable_is_asked_for_outputs_of_noise_too():
    sizes = []

    def make(inputs, outputs):
        sizes.append((inputs, outputs))
        return nn.Linear(inputs, outputs)

    for likelihood in LIKELIHOODS:
        sbmc.SBMCRegressor(module=make, likelihood=likelihood, **QUICK).fit(X, Y)
    assert sizes == [(2, 1), (2, 2), (2, 1)]


def test_the_posterior_can_be_saved(fitted, tmp_path):
    fitted.posterior_.save(tmp_path / "posterior.safetensors")
    module, _ = next(fitted.posterior_.models())
    loaded = sbmc.load(tmp_path / "posterior.safetensors", module)
    prediction = loaded.predict(torch.tensor(X))
    np.testing.assert_array_equal(prediction.mean[:, 0], fitted.predict(X))
    np.testing.assert_array_equal(
        prediction.interval(0.9).lower[:, 0], fitted.predict_interval(X)[:, 0]
    )


def test_a_quantile_as_a_regressor_of_its_own(fitted):
    lower = fitted.at_quantile(0.05)
    np.testing.assert_array_equal(lower.predict(X), fitted.predict_quantile(X, 0.05))
    fresh = type(lower)(sbmc.SBMCRegressor((4,), **QUICK), 0.5)
    assert fresh.fit(X, Y).predict(X).shape == (80,)


def test_a_small_table_is_sampled_by_long_chains_and_a_large_network_is_not(monkeypatch):
    small = defaults.budget_of_numbers(rows=100, parameters=150, trained_epochs=1_000)
    large = defaults.budget_of_numbers(rows=50_000, parameters=10**6, trained_epochs=200)
    assert (small.trainings, large.trainings) == (90.0, 5.0)
    monkeypatch.setattr(defaults, "FEWEST_EPOCHS_TO_THE_END", 30)
    monkeypatch.setattr(defaults, "ROWS_TRAINED", 30 * 120)
    monkeypatch.setattr(long_chains, "FEWEST_EPOCHS", 100)
    model = sbmc.SBMCRegressor((8,), random_state=0)
    X = np.random.default_rng(0).normal(size=(120, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sbmc.HealthWarning)
        model.fit(X, X.sum(1))
    assert model.validation_rows_ == 0
    assert model.posterior_.settings["sampler"] == "MCLMC"
    assert "9 further networks" in model.posterior_.settings["budget"]


def test_a_budget_of_ones_own_is_not_replaced():
    model = sbmc.SBMCRegressor(
        (4,),
        fit_options={"sampler": sbmc.HMC(steps=4)},
        random_state=0,
        training_options={"max_epochs": 20},
    )
    assert model.fit(X, Y).posterior_.settings["sampler_settings"]["steps"] == 4


REFUSED = [
    ({"likelihood": "gausian"}, Y, "Did you mean 'gaussian'"),
    ({"likelihood": "categorical"}, Y, "`likelihood` must be 'gaussian'"),
    ({"likelihood": sbmc.Gaussian(noise_variance=1.0)}, np.column_stack([Y, Y]), "several targets"),
    ({}, np.full(80, np.nan), "NaN"),
    ({}, Y[:70], "inconsistent numbers of samples"),
]


@pytest.mark.parametrize(("options", "targets", "words"), REFUSED)
def test_what_is_refused(options, targets, words):
    with pytest.raises((BadInput, ValueError), match=words):
        sbmc.SBMCRegressor(**{**QUICK, **options}).fit(X, targets)


def test_a_level_outside_is_refused(fitted):
    for ask in (
        lambda: fitted.predict_interval(X, 90),
        lambda: fitted.predict_quantile(X, 0.0),
        lambda: fitted.at_quantile(5),
    ):
        with pytest.raises(BadInput, match="between 0 and 1"):
            ask()


@pytest.mark.parametrize("targets", [np.zeros(20), np.arange(20)])
def test_a_constant_target_and_a_constant_column(targets):
    table = np.column_stack([np.arange(20.0), np.ones(20)])
    model = sbmc.SBMCRegressor((4,), **QUICK).fit(table, targets)
    mean, deviation = model.predict(table, return_std=True)
    assert np.isfinite(mean).all()
    assert (deviation > 0).all()
