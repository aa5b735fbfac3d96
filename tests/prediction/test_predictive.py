"""Mixtures of distributions: quantiles, densities and CRPS against scipy and quadrature."""

from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy import optimize, stats
from torch import distributions

from sbmc.checks import BadInput
from sbmc.prediction import predictive
from sbmc.prediction.predictive import PredictiveMixture, checked_level, weighted_quantile

RNG = np.random.default_rng(3)
WEIGHTS = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
LOCS = torch.from_numpy(4 * RNG.standard_normal((3, 4)))
SCALES = torch.from_numpy(RNG.gamma(2.0, 0.4, (3, 4)) + 0.1)
DEGREES = torch.full((3, 4), 3.5, dtype=torch.float64)
RATES = torch.from_numpy(RNG.gamma(1.5, 4.0, (3, 4)))
COUNTS = torch.from_numpy(RNG.gamma(1.5, 4.0, (3, 4)))
PROBS = torch.full((3, 4), 0.7, dtype=torch.float64)

MIXTURES = {
    "normal": (
        distributions.Normal(LOCS, SCALES),
        lambda i, k: stats.norm(LOCS[i, k], SCALES[i, k]),
    ),
    "student_t": (
        distributions.StudentT(DEGREES, LOCS, SCALES),
        lambda i, k: stats.t(3.5, LOCS[i, k], SCALES[i, k]),
    ),
    "gamma": (
        distributions.Gamma(SCALES, 1 / SCALES),
        lambda i, k: stats.gamma(SCALES[i, k], scale=SCALES[i, k]),
    ),
    "poisson": (distributions.Poisson(RATES), lambda i, k: stats.poisson(RATES[i, k])),
    "negative_binomial": (
        distributions.NegativeBinomial(COUNTS, probs=PROBS),
        lambda i, k: stats.nbinom(COUNTS[i, k], 0.3),
    ),
}
CONTINUOUS, DISCRETE = ("normal", "student_t", "gamma"), ("poisson", "negative_binomial")
LEVELS = (0.001, 0.05, 0.5, 0.72, 0.995)


def both(name):
    components, theirs = MIXTURES[name]

    def function(k):
        parts = [theirs(i, k) for i in range(3)]
        return lambda x: sum(w * p.cdf(x) for w, p in zip(WEIGHTS.tolist(), parts, strict=True))

    return PredictiveMixture(components, WEIGHTS), function


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_quantiles_are_the_roots_of_the_mixture(name, level):
    mixture, function = both(name)
    found = mixture.quantile(level)
    for k in range(4):
        expected = optimize.brentq(lambda x, k=k: function(k)(x) - level, -400, 400, xtol=1e-12)
        assert found[k].item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", DISCRETE)
def test_quantiles_of_counts_are_the_smallest_integers_that_reach_the_level(name, level):
    mixture, function = both(name)
    found = mixture.quantile(level)
    for k in range(4):
        integers = np.arange(2000)
        expected = integers[function(k)(integers) >= level][0]
        assert found[k].item() == expected


def test_a_level_that_is_reached_but_for_rounding_is_reached():
    zero_or_one = distributions.Bernoulli(torch.full((3, 1), 0.9, dtype=torch.float64))
    thirds = torch.full((3,), 1 / 3, dtype=torch.float64)
    assert PredictiveMixture(zero_or_one, thirds).quantile(0.1).item() == 0.0
    assert PredictiveMixture(zero_or_one, thirds).quantile(0.1001).item() == 1.0


def test_means_of_quantiles_would_be_seen():
    # A planted bug: the mean of the particles' quantiles, as of one Gaussian that they share.
    mixture, _ = both("normal")
    planted = WEIGHTS @ (LOCS + SCALES * stats.norm.ppf(0.95))
    assert (mixture.quantile(0.95) - planted).abs().min() > 0.05


def test_one_particle_has_its_own_quantile():
    alone = PredictiveMixture(distributions.Normal(LOCS[:1], SCALES[:1]), torch.ones(1))
    expected = stats.norm.ppf(0.9, LOCS[0], SCALES[0])
    np.testing.assert_allclose(alone.quantile(0.9), expected, rtol=1e-14)


@pytest.mark.parametrize("name", MIXTURES)
def test_moments_and_density(name):
    components, theirs = MIXTURES[name]
    mixture = PredictiveMixture(components, WEIGHTS)
    targets = torch.tensor([1.0, 2.0, 0.0, 5.0], dtype=torch.float64)
    if name == "gamma":
        targets = targets + 0.5
    for k in range(4):
        parts = [theirs(i, k) for i in range(3)]
        mean = sum(w * p.mean() for w, p in zip(WEIGHTS.tolist(), parts, strict=True))
        second = sum(
            w * (p.var() + p.mean() ** 2) for w, p in zip(WEIGHTS.tolist(), parts, strict=True)
        )
        density = [
            p.pmf(targets[k]) if hasattr(p, "pmf") and name in DISCRETE else p.pdf(targets[k])
            for p in parts
        ]
        assert mixture.mean[k].item() == pytest.approx(mean)
        assert mixture.variance[k].item() == pytest.approx(second - mean**2)
        expected = np.log(WEIGHTS.numpy() @ np.array(density))
        assert mixture.log_prob(targets)[k].item() == pytest.approx(expected)


def test_outputs_of_an_example_have_one_density():
    components = distributions.Normal(LOCS.view(3, 2, 2), SCALES.view(3, 2, 2))
    targets = torch.tensor([[0.0, 1.0], [2.0, -1.0]], dtype=torch.float64)
    found = PredictiveMixture(components, WEIGHTS).log_prob(targets)
    each = stats.norm.pdf(targets.numpy(), components.loc.numpy(), components.scale.numpy())
    expected = np.log((WEIGHTS.numpy()[:, None] * each.prod(-1)).sum(0))
    np.testing.assert_allclose(found, expected)
    independent = distributions.Independent(components, 1)
    torch.testing.assert_close(PredictiveMixture(independent, WEIGHTS).log_prob(targets), found)


@pytest.mark.parametrize("name", MIXTURES)
def test_crps_against_draws(name):
    components, theirs = MIXTURES[name]
    targets = torch.tensor([1.0, 2.0, 0.0, 5.0], dtype=torch.float64)
    found = PredictiveMixture(components, WEIGHTS).crps(targets)
    rng = np.random.default_rng(0)
    for k in range(4):
        chosen = rng.choice(3, 100_000, p=WEIGHTS.numpy())
        draws, others = (
            np.choose(chosen, [theirs(i, k).rvs(100_000, random_state=rng) for i in range(3)]),
            np.choose(
                rng.choice(3, 100_000, p=WEIGHTS.numpy()),
                [theirs(i, k).rvs(100_000, random_state=rng) for i in range(3)],
            ),
        )
        values = np.abs(draws - targets[k].item()) - 0.5 * np.abs(draws - others)
        # Five standard errors: a false alarm in fewer than 1 of 80,000 runs of the 20 cases.
        error = values.std() / len(values) ** 0.5
        assert abs(found[k].item() - values.mean()) < 5 * error
        assert error < 0.1 * abs(values.mean())


def test_weighted_quantiles_against_their_definition():
    ordered = LOCS.sort(0)
    weights = WEIGHTS[ordered.indices].cumsum(0)
    for level in (0.1, 0.5, 0.9):
        expected = [
            ordered.values[int((weights[:, k] >= level).nonzero()[0]), k].item() for k in range(4)
        ]
        assert weighted_quantile(LOCS, WEIGHTS, level).tolist() == expected


def test_distributions_of_vectors_are_refused():
    vectors = distributions.MultivariateNormal(torch.zeros(3, 4, 2), torch.eye(2))
    with pytest.raises(BadInput, match=r"a MultivariateNormal of event shape \(2,\)"):
        PredictiveMixture(vectors, WEIGHTS)


def test_a_weighted_quantile_that_is_equal_to_a_cumulated_weight():
    values = torch.tensor([1.0, 2.0, 3.0, 4.0])
    tenths = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    assert [weighted_quantile(values, tenths, q).item() for q in (0.1, 0.3, 0.6, 1.0)] == [
        1.0,
        2.0,
        3.0,
        4.0,
    ]


def test_without_a_distribution_function_draws_are_used():
    mixture, _ = both("normal")
    score = mixture.crps(torch.zeros(4))

    class Opaque(distributions.Distribution):
        arg_constraints: ClassVar[dict] = {}
        support = distributions.constraints.real
        mean, variance = LOCS, SCALES.square()

        def __init__(self):
            super().__init__(LOCS.shape, validate_args=False)

        def sample(self, shape=()):
            return torch.normal(LOCS.expand(*shape, 3, 4), SCALES)

    before = torch.random.get_rng_state()
    opaque = PredictiveMixture(Opaque(), WEIGHTS)
    for level in (0.1, 0.5):
        found = opaque.quantile(level)
        # 2,000 draws: the error in probability is below 0.012 in standard deviation.
        assert (mixture.cdf(found) - level).abs().max() < 0.06
        assert torch.equal(found, opaque.quantile(level))
    assert (opaque.crps(torch.zeros(4)) - score).abs().max() < 0.1 * float(score.max())
    assert torch.equal(torch.random.get_rng_state(), before)


def test_large_counts_are_drawn(monkeypatch):
    mixture, _ = both("poisson")
    targets = torch.tensor([1.0, 2.0, 0.0, 5.0])
    exact = mixture.crps(targets)
    monkeypatch.setattr(predictive, "MOST_COUNTS", 3)
    assert (mixture.crps(targets) - exact).abs().max() < 0.1 * float(exact.max())


@pytest.mark.parametrize("level", [0, 1, -0.1, float("nan"), True, "0.9", None])
def test_levels_that_are_no_probabilities_are_refused(level):
    with pytest.raises(BadInput, match="`level` must be between 0 and 1, exclusively"):
        checked_level(level)
