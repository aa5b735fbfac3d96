"""Quantiles of a graph against those of the mixture."""

import pytest
import torch
from torch.distributions import Normal

from sbmc.posterior.export.quantiles import mixture_quantiles, normal_cdf
from sbmc.prediction.predictive import PredictiveMixture

LEVELS = [0.005, 0.05, 0.5, 0.9, 0.995]


def random_mixtures():
    rng = torch.Generator().manual_seed(0)
    means = 3 * torch.randn(7, 40, 2, generator=rng, dtype=torch.float64)
    deviations = torch.rand(7, 40, 2, generator=rng, dtype=torch.float64).exp()
    weights = torch.rand(7, generator=rng, dtype=torch.float64).square()
    return means, deviations, weights / weights.sum()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_they_are_those_of_the_mixture(dtype):
    means, deviations, weights = random_mixtures()
    mixture = PredictiveMixture(Normal(means, deviations), weights)
    parts = (part.to(dtype) for part in (means, deviations, weights))
    found = mixture_quantiles(*parts, LEVELS)
    for level, quantile in zip(LEVELS, found, strict=True):
        assert torch.allclose(quantile.double(), mixture.quantile(level), atol=2e-5, rtol=0)


@pytest.mark.parametrize(("level", "most"), [(0.95, 1e-5), (0.9995, 5e-4)])
@pytest.mark.parametrize(("dtype", "factor"), [(torch.float32, 1), (torch.float64, 20)])
def test_ends_of_intervals_are_as_exact_as_the_page_says(level, most, dtype, factor):
    rng = torch.Generator().manual_seed(0)
    means = 3 * torch.randn(80, 400, 1, generator=rng, dtype=torch.float64)
    deviations = torch.rand(80, 400, 1, generator=rng, dtype=torch.float64).exp()
    weights = torch.full((80,), 1 / 80, dtype=torch.float64)
    mixture = PredictiveMixture(Normal(means, deviations), weights)
    ends = [1 - level, level]
    found = mixture_quantiles(*(part.to(dtype) for part in (means, deviations, weights)), ends)
    for end, quantile in zip(ends, found, strict=True):
        error = (quantile.double() - mixture.quantile(end)).abs() / deviations.amin(0)
        assert float(error.max()) < most / factor


def test_they_are_no_mean_of_the_quantiles():
    means = torch.tensor([[[-9.0]], [[9.0]]])
    found = mixture_quantiles(means, torch.ones(2, 1, 1), torch.tensor([0.9, 0.1]), [0.5, 0.95])
    # The median is inside the heavy component: Φ(y + 9) = 0.5 / 0.9.
    assert found.flatten().tolist() == pytest.approx([-9 + 0.1397, 9.0], abs=1e-3)


def test_few_halvings_leave_a_coarse_bracket():
    means, deviations, weights = random_mixtures()
    exact = mixture_quantiles(means, deviations, weights, [0.3])
    coarse = mixture_quantiles(means, deviations, weights, [0.3], halvings=3)
    standard = means + deviations * torch.special.ndtri(torch.tensor(0.3, dtype=torch.float64))
    width = standard.amax(0) - standard.amin(0)
    assert float((coarse - exact).abs().max()) > 1e-3
    assert bool(((coarse - exact).abs() <= width / 2**4 + 1e-6).all())


def test_one_component_has_its_own_quantile():
    found = mixture_quantiles(torch.full((1, 1, 1), 2.0), torch.ones(1, 1, 1), torch.ones(1), [0.5])
    assert found.item() == pytest.approx(2.0)


def test_the_distribution_function():
    values = torch.linspace(-6, 6, 101, dtype=torch.float64)
    assert torch.allclose(normal_cdf(values), torch.special.ndtr(values), atol=1e-7, rtol=0)
