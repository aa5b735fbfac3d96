"""Units of columns: standard deviations, and half ranges of columns with two values."""

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler

import sbmc
from sbmc.estimators.scaling import column_scaler


def test_columns_of_many_values_have_standard_deviations():
    X = np.random.default_rng(0).normal(3, [1, 10], (50, 2))
    weights = np.arange(50.0)
    expected = StandardScaler().fit(X, sample_weight=weights)
    found = column_scaler(X, weights)
    assert np.array_equal(found.transform(X), expected.transform(X))


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 7)])
def test_two_values_are_two_units_apart_however_rare_one_is(low, high):
    column = np.full((240, 1), float(low))
    column[5] = high
    scaled = column_scaler(column).transform(column)
    assert np.ptp(scaled) == pytest.approx(2)
    assert scaled.mean() == pytest.approx(0)
    assert np.ptp(StandardScaler().fit_transform(column)) > 15  # what it would be otherwise


def test_equal_halves_and_constants_are_as_before():
    X = np.c_[np.arange(20) % 2, np.full(20, 4.0)].astype(float)
    assert np.allclose(column_scaler(X).transform(X), StandardScaler().fit_transform(X))


def test_the_noise_of_a_rare_level_is_of_the_size_of_the_target():
    rng = np.random.default_rng(3)
    hours = rng.uniform(0, 30, 240)
    level = rng.permutation(np.repeat([0, 1, 2], [120, 117, 3]))
    target = hours + np.array([0, 5, 8])[level] + rng.normal(size=240)
    X = np.c_[hours, np.eye(3)[level]]
    regressor = sbmc.SBMCRegressor(random_state=0).fit(X, target)
    rare = regressor.posterior_.predict(torch.tensor([[15.0, 0, 0, 1]]))
    assert float(rare.total.sqrt()) < target.std()  # in units of standard deviations it was 10⁵
