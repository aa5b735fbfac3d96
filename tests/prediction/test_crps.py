"""CRPS: closed form, quadrature, counts and draws, each against an independent way."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from sbmc.prediction import crps as module
from sbmc.prediction.crps import (
    class_crps,
    counted_crps,
    gaussian_mixture_crps,
    integrated_crps,
    sampled_crps,
)

RNG = np.random.default_rng(0)
MEANS = torch.from_numpy(3 * RNG.standard_normal((7, 5)))
SCALES = torch.from_numpy(RNG.gamma(2.0, 0.5, (7, 5)) + 0.05)
WEIGHTS = torch.from_numpy(RNG.dirichlet(np.ones(7)))
TARGETS = torch.tensor([-9.0, 0.0, 0.3, 2.0, 30.0], dtype=torch.float64)


def crps_by_quadrature(function, target, low=-80.0, high=80.0):
    below, _ = integrate.quad(lambda x: function(x) ** 2, low, target, limit=400)
    above, _ = integrate.quad(lambda x: (1 - function(x)) ** 2, target, high, limit=400)
    return below + above


def gaussian_mixture(column):
    means, scales, weights = (x.numpy() for x in (MEANS[:, column], SCALES[:, column], WEIGHTS))
    return lambda x: float(weights @ stats.norm.cdf(x, means, scales))


def test_mixture_of_gaussians_against_quadrature():
    expected = [
        crps_by_quadrature(gaussian_mixture(k), float(TARGETS[k])) for k in range(len(TARGETS))
    ]
    found = gaussian_mixture_crps(MEANS, SCALES, WEIGHTS, TARGETS)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_mixture_of_gaussians_against_scoringrules():
    scoringrules = pytest.importorskip("scoringrules")
    expected = scoringrules.crps_mixnorm(
        TARGETS.numpy(), MEANS.T.numpy(), SCALES.T.numpy(), WEIGHTS.expand(5, 7).numpy()
    )
    found = gaussian_mixture_crps(MEANS, SCALES, WEIGHTS, TARGETS)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_pairs_in_parts_give_what_all_at_once_give(monkeypatch):
    at_once = gaussian_mixture_crps(MEANS, SCALES, WEIGHTS, TARGETS)
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", 2 * MEANS.numel())
    in_parts = gaussian_mixture_crps(MEANS, SCALES, WEIGHTS, TARGETS)
    torch.testing.assert_close(in_parts, at_once, rtol=1e-14, atol=0)


def test_no_more_pairs_are_held_than_allowed(monkeypatch):
    sizes = []
    magnitude = module._mean_magnitude
    monkeypatch.setattr(
        module,
        "_mean_magnitude",
        lambda means, scales: sizes.append(means.numel()) or magnitude(means, scales),
    )
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", 3 * MEANS.numel())
    gaussian_mixture_crps(MEANS, SCALES, WEIGHTS, TARGETS)
    assert max(sizes) == 3 * MEANS.numel()


def test_a_planted_bug_is_seen():
    # The pairs' variance as a difference: wrong, and invisible where all particles are alike.
    right = gaussian_mixture_crps(MEANS, SCALES, WEIGHTS, TARGETS)
    weights = WEIGHTS.unsqueeze(1)
    distance = (weights * module._mean_magnitude(TARGETS - MEANS, SCALES)).sum(0)
    gaps = (MEANS.unsqueeze(1) - MEANS).abs()
    without_noise = torch.einsum("i,j,ijk->k", WEIGHTS, WEIGHTS, gaps)
    assert ((distance - 0.5 * without_noise) - right).abs().min() > 1e-2


def test_far_from_the_target_it_is_the_absolute_error():
    narrow = torch.full((3, 1), 1e-6, dtype=torch.float64)
    means = torch.zeros(3, 1, dtype=torch.float64)
    third = torch.full((3,), 1 / 3, dtype=torch.float64)
    found = gaussian_mixture_crps(means, narrow, third, torch.tensor([7.5]))
    assert found.item() == pytest.approx(7.5, abs=1e-5)


@pytest.mark.parametrize("degrees", [1.5, 3.0, 30.0])
def test_integrated_student_t(degrees):
    student = stats.t(degrees)
    targets = torch.tensor([-40.0, -1.0, 0.0, 0.7, 5.0], dtype=torch.float64)
    found = integrated_crps(
        lambda x: torch.from_numpy(student.cdf(x.numpy())),
        lambda level: torch.full_like(targets, student.ppf(level)),
        targets,
    )
    expected = [crps_by_quadrature(student.cdf, float(y), -np.inf, np.inf) for y in targets]
    np.testing.assert_allclose(found, expected, rtol=2e-5)


def test_integrated_agrees_with_the_closed_form_of_scoringrules():
    scoringrules = pytest.importorskip("scoringrules")
    student = stats.t(4.0)
    targets = torch.tensor([-8.0, -1.0, 0.0, 0.7, 5.0], dtype=torch.float64)
    found = integrated_crps(
        lambda x: torch.from_numpy(student.cdf(x.numpy())),
        lambda level: torch.full_like(targets, student.ppf(level)),
        targets,
    )
    np.testing.assert_allclose(found, scoringrules.crps_t(targets.numpy(), 4.0), rtol=1e-6)


def test_counts_against_the_definition():
    rates = torch.tensor([0.4, 3.0, 150.0], dtype=torch.float64)
    targets = torch.tensor([2.0, 0.0, 131.0], dtype=torch.float64)
    found = counted_crps(
        lambda k: torch.from_numpy(stats.poisson.cdf(k.numpy(), rates.numpy())),
        torch.tensor([20.0, 40.0, 300.0]),
        targets,
    )
    expected = []
    for rate, target in zip(rates.tolist(), targets.tolist(), strict=True):
        draws = np.arange(600)
        mass = stats.poisson.pmf(draws, rate)
        between = np.abs(draws[:, None] - draws)
        expected.append(mass @ np.abs(draws - target) - 0.5 * mass @ between @ mass)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_draws_against_all_pairs():
    draws = torch.from_numpy(RNG.standard_normal((11, 4)))
    targets = torch.from_numpy(RNG.standard_normal(4))
    gaps = (draws.unsqueeze(0) - draws.unsqueeze(1)).abs().sum((0, 1)) / (11 * 10)
    expected = (draws - targets).abs().mean(0) - 0.5 * gaps
    torch.testing.assert_close(sampled_crps(draws, targets), expected)


def test_draws_are_an_unbiased_estimate():
    # 4,000 sets of 5 draws: the standard error is below 0.004, and five of them are allowed.
    # With the divisor m² instead of m (m − 1) the mean would be 0.11 higher.
    draws = torch.from_numpy(np.random.default_rng(1).standard_normal((5, 4000)))
    exact = 0.2336949772551092
    found = sampled_crps(draws, torch.zeros(4000, dtype=torch.float64))
    error = found.std() / 4000**0.5
    assert error < 0.004
    assert abs(found.mean() - exact) < 5 * error


def test_two_classes_are_a_label_0_or_1():
    probs = torch.tensor([[0.3, 0.7], [0.9, 0.1]], dtype=torch.float64)
    labels = torch.tensor([1, 1])
    squares = torch.tensor([0.09, 0.81], dtype=torch.float64)
    torch.testing.assert_close(class_crps(probs, labels), squares)
    torch.testing.assert_close(class_crps(probs, labels, ordered=True), squares)


def test_classes_against_their_definition_by_distances():
    probs = torch.from_numpy(RNG.dirichlet(np.ones(4), 3))
    labels = torch.tensor([0, 3, 1])
    numbers = torch.arange(4)
    apart = (numbers.unsqueeze(0) - numbers.unsqueeze(1)).abs().double()
    for ordered, distance in ((True, apart), (False, (apart > 0).double())):
        expected = (probs * distance[labels]).sum(1)
        expected = expected - 0.5 * torch.einsum("nj,nk,jk->n", probs, probs, distance)
        torch.testing.assert_close(class_crps(probs, labels, ordered=ordered), expected)
