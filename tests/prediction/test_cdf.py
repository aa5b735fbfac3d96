"""Distribution functions against scipy, those of torch and our own."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import distributions

from sbmc.prediction.cdf import NoDistributionFunction, cdf, component_quantiles, is_discrete


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


SHAPES = double(0.7, 3.0, 40.0)
REALS = double(-30.0, -1.3, 0.0, 0.4, 2.5, 60.0)
UNITS = double(-0.5, 0.0, 0.1, 0.5, 0.93, 1.0, 1.5)
COUNTS = double(-2.0, -1.0, 0.0, 0.5, 1.0, 3.0, 17.0, 200.0)
PROBS = double(0.02, 0.4, 0.97)

CASES = {
    "normal": (
        distributions.Normal(double(-1.0, 0.0, 3.0), SHAPES),
        stats.norm([-1.0, 0.0, 3.0], SHAPES.numpy()),
        REALS,
    ),
    "student_t": (
        distributions.StudentT(SHAPES, double(-1.0, 0.0, 3.0), double(0.2, 1.0, 5.0)),
        stats.t(SHAPES.numpy(), [-1.0, 0.0, 3.0], [0.2, 1.0, 5.0]),
        REALS,
    ),
    "laplace": (
        distributions.Laplace(double(-1.0, 0.0, 3.0), SHAPES),
        stats.laplace([-1.0, 0.0, 3.0], SHAPES.numpy()),
        REALS,
    ),
    "gamma": (
        distributions.Gamma(SHAPES, double(2.0, 1.0, 0.5)),
        stats.gamma(SHAPES.numpy(), scale=[0.5, 1.0, 2.0]),
        double(-1.0, 0.0, 0.01, 1.0, 5.0, 90.0),
    ),
    "beta": (
        distributions.Beta(SHAPES, double(2.0, 0.5, 9.0)),
        stats.beta(SHAPES.numpy(), [2.0, 0.5, 9.0]),
        UNITS,
    ),
    "poisson": (distributions.Poisson(SHAPES), stats.poisson(SHAPES.numpy()), COUNTS),
    "negative_binomial": (
        distributions.NegativeBinomial(SHAPES, probs=PROBS),
        stats.nbinom(SHAPES.numpy(), 1 - PROBS.numpy()),
        COUNTS,
    ),
    "binomial": (
        distributions.Binomial(double(1.0, 17.0, 30.0), probs=PROBS),
        stats.binom([1, 17, 30], PROBS.numpy()),
        COUNTS,
    ),
    "bernoulli": (distributions.Bernoulli(PROBS), stats.bernoulli(PROBS.numpy()), COUNTS),
    "geometric": (
        distributions.Geometric(PROBS),
        stats.geom(PROBS.numpy(), loc=-1),
        COUNTS,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_against_scipy(name):
    ours, theirs, values = CASES[name]
    found = cdf(ours, values.unsqueeze(1))
    assert found.dtype == torch.float64
    np.testing.assert_allclose(
        found, theirs.cdf(values.unsqueeze(1).numpy()), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("name", CASES)
def test_counts_are_known_by_their_support(name):
    ours, theirs, _ = CASES[name]
    assert is_discrete(ours) == isinstance(theirs.dist, stats.rv_discrete)


@pytest.mark.parametrize("name", ["normal", "student_t", "laplace"])
@pytest.mark.parametrize("level", [1e-6, 0.05, 0.5, 0.999])
def test_quantiles_of_components_against_scipy(name, level):
    ours, theirs, _ = CASES[name]
    np.testing.assert_allclose(component_quantiles(ours, level), theirs.ppf(level), rtol=1e-9)


def test_what_has_no_closed_form_is_said():
    assert component_quantiles(CASES["gamma"][0], 0.5) is None
    angles = distributions.VonMises(double(0.0), double(1.0))
    with pytest.raises(NoDistributionFunction, match="VonMises"):
        cdf(angles, double(0.0))


def test_float32_parameters_are_computed_with_in_float64():
    normal = distributions.Normal(torch.tensor([0.0]), torch.tensor([1.0]))
    assert cdf(normal, torch.tensor([-9.0])).item() == pytest.approx(stats.norm.cdf(-9), rel=1e-9)
