"""Autocorrelation, its sum and effective draws: exact values, AR(1), and ArviZ."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from scipy.signal import lfilter

from sbmc import BadInput
from sbmc.diagnostics import autocorrelation, effective_sample_size, integrated_autocorrelation_time
from sbmc.storage.optional import load_arviz

arviz = load_arviz()
CHAINS, DRAWS = 8, 20_000


def ar1(phi, chains=CHAINS, draws=DRAWS, seed=0):
    """x_t = φ x_{t−1} + noise, started from its stationary distribution N(0, 1)."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(chains, draws)) * np.sqrt(1 - phi**2)
    noise[:, 0] = rng.normal(size=chains)
    return lfilter([1.0], [1.0, -phi], noise, axis=1)


def test_autocorrelation_is_its_definition():
    draws = np.random.default_rng(1).normal(size=(3, 12)).cumsum(1)
    centred = draws - draws.mean(1, keepdims=True)
    found = autocorrelation(draws)
    for lag in range(12):
        covariance = (centred[:, : 12 - lag] * centred[:, lag:]).sum(1)
        np.testing.assert_allclose(found[:, lag], covariance / (centred**2).sum(1), atol=1e-12)


def test_autocorrelation_of_a_chain_that_never_moves_is_not_a_number():
    found = autocorrelation([[0.1] * 5, [1.0, 2.0, 3.0, 2.0, 1.0]])
    assert np.isnan(found[0]).all()
    assert found[1, 0] == pytest.approx(1)


def test_autocorrelation_of_ar1_is_a_power_of_phi():
    found = autocorrelation(ar1(0.8))[:, :6].mean(0)
    # Bartlett: each ρ_t has a standard error below √((1+φ²)/(1−φ²)/n) = 0.0054; five of them.
    np.testing.assert_allclose(found, 0.8 ** np.arange(6), atol=0.027)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9, -0.4])
def test_iact_of_ar1_is_one_plus_phi_over_one_minus_phi(phi):
    expected = (1 + phi) / (1 - phi)
    # The window W of a few τ gives a relative standard error √(2(2W+1)/n) < 0.03 for τ = 19: five.
    assert integrated_autocorrelation_time(ar1(phi)) == pytest.approx(expected, rel=0.15)


def test_leaving_out_the_factor_two_is_noticed():
    rho = autocorrelation(ar1(0.9))[:, :60].mean(0)
    wrong = 1 + rho[1:].sum()
    assert wrong != pytest.approx((1 + 0.9) / (1 - 0.9), rel=0.15)


def test_iact_is_draws_over_the_effective_sample_size_of_arviz():
    draws = ar1(0.7, chains=3, draws=500)
    expected = draws.size / arviz.ess(draws, method="identity")
    assert integrated_autocorrelation_time(draws) == pytest.approx(float(expected))


def test_independent_draws_count_in_full():
    found = effective_sample_size(ar1(0.0))
    assert found == pytest.approx(CHAINS * DRAWS, rel=0.1)
    assert effective_sample_size(ar1(0.9)) == pytest.approx(CHAINS * DRAWS / 19, rel=0.15)


def test_effective_sample_size_is_that_of_arviz():
    draws = ar1(0.7, chains=3, draws=500)
    assert effective_sample_size(draws) == pytest.approx(float(arviz.ess(draws)))


def test_chains_that_disagree_count_as_correlated():
    draws = ar1(0.0, chains=4, draws=500)
    draws[0] += 5
    assert integrated_autocorrelation_time(draws) > 50
    assert effective_sample_size(draws) < 40


def test_nothing_varies():
    assert np.isnan(integrated_autocorrelation_time(np.ones((2, 10))))
    assert np.isnan(effective_sample_size(np.ones((2, 10))))


def test_tensors_arrays_and_lists_are_alike():
    draws = torch.tensor(ar1(0.5, chains=2, draws=50), dtype=torch.float32, requires_grad=True)
    plain = draws.detach().numpy()
    for function in (integrated_autocorrelation_time, effective_sample_size):
        assert function(draws) == function(plain) == function(plain.tolist())


@pytest.mark.parametrize(
    ("draws", "words"),
    [
        (np.zeros(5), r"`draws` must be an array \(chains, draws\), but got shape \(5,\)\."),
        (np.zeros((2, 0)), r"but got shape \(2, 0\)"),
        ([["a"]], "`draws` must be numeric, but got dtype <U1. Make numbers of texts first"),
        ([[1.0, np.nan, 2.0, 3.0]], "`draws` must be finite, but got NaN or infinity."),
        ([[1.0, 2.0, 3.0]], "`draws` must be at least 4 draws of each chain, but got 3."),
    ],
)
def test_bad_draws_are_refused(draws, words):
    for function in (integrated_autocorrelation_time, effective_sample_size):
        with pytest.raises(BadInput, match=words):
            function(draws)


def test_a_missing_arviz_is_asked_for_by_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"pip install 'sbmc\[arviz\]'"):
        effective_sample_size(np.random.default_rng(0).normal(size=(2, 10)))
