"""Every likelihood's prediction can be asked the same questions, and the answers agree."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import distributions

from sbmc.checks import BadInput
from sbmc.likelihoods import (
    Bernoulli,
    Categorical,
    DenseCategorical,
    Gaussian,
    MultiLabel,
    NegativeBinomial,
    Poisson,
    StudentT,
)
from sbmc.likelihoods.from_distribution import FromDistribution
from sbmc.prediction.mixture import mixed_prediction
from sbmc.prediction.samples import KeptOutputs, Samples

RNG = torch.Generator().manual_seed(5)
PARTICLES, EXAMPLES = 5, 3
WEIGHTS = torch.rand(PARTICLES, generator=RNG, dtype=torch.float64).softmax(0)


def outputs(*shape):
    return torch.randn(PARTICLES, EXAMPLES, *shape, generator=RNG, dtype=torch.float64)


NUMBERS = {
    "known noise": (Gaussian(noise_variance=0.3), outputs(2)),
    "noise of the network": (Gaussian(noise="network"), outputs(4)),
    "learned noise": (Gaussian(), outputs(2)),
    "Student's t": (StudentT(df=4.0, scale=0.5), outputs(1)),
    "Poisson": (Poisson(), outputs(1) + 1),
    "negative binomial": (NegativeBinomial(), outputs(2)),
    "Laplace": (FromDistribution(lambda o: distributions.Laplace(o, 0.5)), outputs(2)),
    "t of one's own": (
        FromDistribution(lambda o: distributions.StudentT(3.0, o[:, 0], o[:, 1].exp())),
        outputs(2),
    ),
}
CLASSES = {
    "categorical": (Categorical(), outputs(4)),
    "Bernoulli": (Bernoulli(), outputs(1)),
    "many labels": (MultiLabel(), outputs(3)),
    "positions": (DenseCategorical(dims=1, axis=-1), outputs(4, 3)),
}


def prediction_of(likelihood, values):
    found = mixed_prediction(likelihood, [(values, WEIGHTS)])
    return replace(found, particles=Samples(KeptOutputs(values), WEIGHTS, likelihood))


@pytest.mark.parametrize("name", NUMBERS)
def test_draws_agree_with_everything_else(name):
    likelihood, values = NUMBERS[name]
    prediction = prediction_of(likelihood, values)
    draws = prediction.sample(20_000)
    assert draws.shape == (20_000, *prediction.mean.shape)
    # Shares of draws below quantiles: five standard errors, and all draws of an integer count.
    for level in (0.1, 0.5, 0.9):
        at = prediction.quantile(level)
        share = (draws <= at).double().mean(0)
        error = 5 * math.sqrt(level * (1 - level) / 20_000)
        assert (share > level - error).all()
        assert ((draws < at).double().mean(0) < level + error).all()
        reached = prediction.cdf(at)
        assert (reached >= level - 1e-9).all()
        assert (share - reached).abs().max() < 5 * 0.5 / math.sqrt(20_000)
    targets = draws[0]
    by_draws = (draws - targets).abs().mean(0) - 0.5 * (draws[1::2] - draws[::2]).abs().mean(0)
    spread = draws.std(0)
    # Standard errors of both means are below 0.012 of a standard deviation, heavy tails included.
    assert ((prediction.crps(targets) - by_draws).abs() < 0.1 * spread).all()


@pytest.mark.parametrize("name", NUMBERS)
def test_log_density_is_that_of_the_distributions(name):
    likelihood, values = NUMBERS[name]
    prediction = prediction_of(likelihood, values)
    targets = prediction.sample(1)[0]
    each = likelihood.distribution(values).log_prob(targets)
    each = each if each.ndim == 2 else each.flatten(2).sum(-1)
    expected = torch.logsumexp(each + WEIGHTS.log().unsqueeze(1), 0)
    torch.testing.assert_close(prediction.log_prob(targets), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NUMBERS)
def test_splits_of_numbers(name):
    prediction = prediction_of(*NUMBERS[name])
    total, aleatoric, epistemic = prediction.split("entropy")
    assert (epistemic >= 0).all()
    # At most the entropy of the weights: which particle it was.
    assert (epistemic <= stats.entropy(WEIGHTS) + 1e-6).all()
    assert (total >= aleatoric - 1e-6).all()
    torch.testing.assert_close(prediction.split().total, prediction.variance)


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name):
    likelihood, values = CLASSES[name]
    prediction = prediction_of(likelihood, values)
    draws = prediction.sample(8_000)
    assert draws.shape == (8_000, *prediction.probs.shape[:-1])
    shares = torch.nn.functional.one_hot(draws, prediction.probs.shape[-1]).double().mean(0)
    assert (shares - prediction.probs).abs().max() < 5 * 0.5 / math.sqrt(8_000)
    lower, upper = prediction.interval(0.8, kind="credible")
    each = likelihood.logits(values).softmax(-1)
    assert lower.shape == prediction.probs.shape
    assert (lower >= each.min(0).values).all()
    assert (upper <= each.max(0).values).all()
    assert (lower <= prediction.quantile(0.5, kind="credible")).all()
    labels = prediction.labels
    assert (prediction.crps(labels) <= 0.5).all()
    for by in ("entropy", "variance", "zero-one"):
        assert prediction.split(by).epistemic.shape == labels.shape
        assert (prediction.split(by).epistemic >= 0).all()


@pytest.mark.parametrize("name", CLASSES)
def test_log_probability_of_all_labels_of_an_example(name):
    likelihood, values = CLASSES[name]
    prediction = prediction_of(likelihood, values)
    labels = prediction.labels
    logs = likelihood.logits(values).log_softmax(-1)
    index = labels.expand(PARTICLES, *labels.shape).unsqueeze(-1)
    each = logs.gather(-1, index).squeeze(-1)
    joint = each.flatten(2).sum(-1) if each.ndim > 2 else each
    expected = torch.logsumexp(joint + WEIGHTS.log().unsqueeze(1), 0)
    torch.testing.assert_close(prediction.log_prob(labels), expected)
    if labels.ndim > 1:
        # A planted bug: labels as if they were independent in the mixture.
        apart = prediction.probs.gather(-1, labels.unsqueeze(-1)).squeeze(-1).log()
        assert (prediction.log_prob(labels) - apart.flatten(1).sum(-1)).abs().min() > 1e-3


def test_positions_that_are_ignored_do_not_count():
    likelihood = DenseCategorical(dims=1, axis=-1, ignore_index=-100)
    values = CLASSES["positions"][1]
    prediction = prediction_of(likelihood, values)
    labels = prediction.labels.clone()
    labels[:, 1:] = -100
    first = prediction.probs[:, 0].max(-1).values.log()
    np.testing.assert_allclose(prediction.log_prob(labels), first)


def test_targets_that_are_vectors_can_be_drawn_and_scored():
    def function(o):
        return distributions.MultivariateNormal(o, torch.eye(2, dtype=o.dtype))

    likelihood, values = FromDistribution(function), outputs(2)
    prediction = prediction_of(likelihood, values)
    draws = prediction.sample(4_000)
    assert draws.shape == (4_000, EXAMPLES, 2)
    assert (draws.mean(0) - prediction.mean).abs().max() < 5 * prediction.variance.max() ** 0.5 / 63
    assert prediction.log_prob(draws[0]).shape == (EXAMPLES,)
    with pytest.raises(BadInput, match="`likelihood` must be of single numbers"):
        prediction.interval()
