"""Confidence for numbers: what is answered, what is promised, and that it is saved."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.confidence import IntervalConfidence, fit_interval_confidence
from sbmc.likelihoods import Gaussian, Poisson
from sbmc.prediction.mixture import mixed_prediction
from sbmc.prediction.prediction import RegressionPrediction
from sbmc.prediction.samples import KeptOutputs, Samples

ALPHA, DELTA, WIDTH = 0.1, 0.1, 3.0
WEIGHTS = torch.tensor([0.4, 0.6], dtype=torch.float64)


def made(outputs, likelihood, weights=WEIGHTS):
    found = mixed_prediction(likelihood, [(outputs, weights)])
    return replace(found, particles=Samples(KeptOutputs(outputs), weights, likelihood))


def predict(inputs, doubt=1.0):
    """Two particles around 0 whose noise has the standard deviation x; `doubt` scales it."""
    x = torch.as_tensor(inputs).double().reshape(-1, 1)
    noise = 2 * (doubt * x).log()
    outputs = [torch.cat([shift + 0 * x, noise], 1) for shift in (-0.15, 0.1)]
    return made(torch.stack(outputs), Gaussian(noise="network"))


def examples(count, seed):
    """Inputs, and targets with the mixture's own distribution."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.2, 2.0, (count, 1))
    shift = rng.choice([-0.15, 0.1], (count, 1), p=WEIGHTS.numpy())
    return torch.from_numpy(x), torch.from_numpy(shift + x * rng.standard_normal((count, 1)))


def true_error(x, width=WIDTH):
    """Probability that a target of the mixture is more than half a width from its mean, 0."""
    parts = [
        stats.norm.cdf(width / 2, shift, x) - stats.norm.cdf(-width / 2, shift, x)
        for shift in (-0.15, 0.1)
    ]
    return 1 - WEIGHTS.numpy() @ np.array(parts)


# The score.


def test_the_score_is_the_probability_to_miss():
    confidence = IntervalConfidence(WIDTH, predict=predict)
    x = np.linspace(0.2, 2.0, 20)
    np.testing.assert_allclose(confidence.score(x), true_error(x), rtol=1e-6, atol=1e-9)


def test_it_abstains_exactly_where_the_interval_is_wider_than_allowed():
    # Without disagreement the interval around the mean is the central one.
    x = torch.linspace(0.2, 2.0, 50, dtype=torch.float64)
    outputs = torch.stack([0 * x, 2 * x.log()], 1).expand(2, -1, -1)
    prediction = made(outputs, Gaussian(noise="network"))
    confidence = IntervalConfidence(WIDTH, level=0.8)
    wider = prediction.interval(0.8).width.squeeze(1) > WIDTH
    assert torch.equal(confidence.abstain(prediction), wider)
    assert 0 < wider.sum() < 50


def test_outputs_are_asked_together_within_each_particle():
    # Two outputs that two particles move together: not independent in the mixture.
    shifts = torch.tensor([-2.0, 2.0]).view(2, 1, 1).expand(2, 4, 2).double()
    prediction = made(shifts, Gaussian(noise_variance=1.0), torch.tensor([0.5, 0.5]))
    confidence = IntervalConfidence([4.0, 6.0])
    each = [stats.norm.cdf(w / 2 - 2) - stats.norm.cdf(-w / 2 - 2) for w in (4.0, 6.0)]
    assert confidence.score(prediction).tolist() == pytest.approx([1 - each[0] * each[1]] * 4)
    with pytest.raises(BadInput, match="3 widths for outputs of shape"):
        IntervalConfidence([1.0, 1.0, 1.0]).score(prediction)


def test_counts_at_the_ends_are_inside():
    rates = torch.full((2, 1, 1), math.log(4.0), dtype=torch.float64)
    prediction = made(rates, Poisson())
    expected = 1 - stats.poisson.pmf([3, 4, 5], 4.0).sum()
    # The mean is 4 but for rounding, so the ends are a little more than one away.
    assert IntervalConfidence(2.0001).score(prediction).item() == pytest.approx(expected)


def test_decisions():
    confidence = IntervalConfidence(WIDTH, level=0.9, predict=predict)
    decision = confidence.decide([0.3, 1.9])
    assert decision.abstained.tolist() == [False, True]
    assert decision.mean[0].item() == pytest.approx(0.0, abs=1e-6)
    assert decision.mean[1].isnan().all()
    assert decision.interval.width[0].item() == pytest.approx(WIDTH)
    assert decision.interval.lower[1].isnan().all()
    assert torch.equal(decision.score, confidence.score([0.3, 1.9]))


# The guarantee.


def calibrated(seed, doubt=1.0, count=400):
    confidence = fit_interval_confidence(
        lambda x: predict(x, doubt), examples(300, 10_000), width=WIDTH
    )
    confidence.calibrate(examples(count, seed), alpha=ALPHA, delta=DELTA)
    return confidence


def error_among_answered(confidence):
    """Of inputs uniform on [0.2, 2.0], by a fine grid."""
    x = np.linspace(0.2, 2.0, 400)
    answered = ~confidence.abstain(x).numpy()
    return true_error(x[answered]).mean() if answered.any() else 0.0


@pytest.mark.parametrize("doubt", [1.0, 0.4, 2.5], ids=["right", "too sure", "too unsure"])
def test_the_promise_is_kept_however_wrong_the_noise_is(doubt):
    repeats = 60
    errors = [error_among_answered(calibrated(seed, doubt)) for seed in range(repeats)]
    broken = sum(error > ALPHA for error in errors)
    # Above this count with a probability of 1 in 1,000 if each breaks it with probability delta.
    assert broken <= stats.binom.ppf(0.999, repeats, DELTA)
    # And not by answering nothing.
    assert np.mean([error > 0 for error in errors]) > 0.9


def test_a_level_without_calibration_breaks_it():
    # A planted bug: the level 1 - alpha of a prediction that is too sure of itself.
    too_sure = IntervalConfidence(WIDTH, level=1 - ALPHA, predict=lambda x: predict(x, 0.4))
    assert error_among_answered(too_sure) > 1.5 * ALPHA


def test_the_guarantee_is_that_of_classes():
    confidence = calibrated(0)
    found = confidence.guaranteed
    assert (found.alpha, found.delta, found.examples) == (ALPHA, DELTA, 400)
    assert found.bound <= ALPHA
    x, targets = examples(400, 0)
    answered = ~confidence.abstain(x)
    missed = (targets.squeeze(1) - predict(x).mean.squeeze(1)).abs() > WIDTH / 2
    assert int(answered.sum()) == found.answered
    assert int(missed[answered].sum()) == found.errors
    with pytest.raises(BadInput, match="at least 22 examples"):
        confidence.calibrate(examples(21, 1), alpha=ALPHA, delta=DELTA)


def test_inputs_out_of_domain_count_as_wrong():
    confidence = calibrated(0)
    alone = confidence.guaranteed.coverage
    strangers = examples(100, 3)[0]
    both = confidence.calibrate(examples(400, 0), strangers, alpha=ALPHA, delta=DELTA)
    assert both.examples == 500
    assert both.coverage < alone


# With a posterior.


@pytest.fixture(scope="module")
def posterior():
    torch.manual_seed(0)
    x = torch.randn(60, 2)
    y = x.sum(1, keepdim=True) + 0.3 * torch.randn(60, 1)
    likelihood = sbmc.Gaussian(noise_variance=0.09)
    return sbmc.fit(
        nn.Linear(2, 1), (x, y), s=1, particles=4, likelihood=likelihood, progress=False
    )


def test_a_posterior_has_one_and_saves_it(posterior, tmp_path):
    torch.manual_seed(1)
    x = torch.randn(500, 2)
    y = x.sum(1, keepdim=True) + 0.3 * torch.randn(500, 1)
    confidence = posterior.confidence((x[:100], y[:100]), width=1.5)
    assert isinstance(confidence, IntervalConfidence)
    assert posterior.fitted_confidence is confidence
    confidence.calibrate((x[100:], y[100:]), alpha=0.1, delta=0.1)
    assert not confidence.guaranteed.answers_nothing
    posterior.save(tmp_path / "posterior.safetensors")
    again = sbmc.load(tmp_path / "posterior.safetensors", nn.Linear(2, 1)).fitted_confidence
    assert again.guaranteed == confidence.guaranteed
    first, second = confidence.decide(x), again.decide(x)
    assert torch.equal(first.abstained, second.abstained)
    assert torch.equal(first.score, second.score)
    assert again._reference.keys() == {"inside"}


def test_a_posterior_asks_for_the_width(posterior):
    data = torch.randn(30, 2), torch.randn(30, 1)
    with pytest.raises(BadInput, match="`width` must be given for numbers"):
        posterior.confidence(data)
    classes = sbmc.fit(
        nn.Linear(2, 2), (data[0], (data[1] > 0).long().squeeze(1)), s=0, progress=False
    )
    with pytest.raises(BadInput, match="`width` must be left out for classes"):
        classes.confidence(data, width=1.0)


def test_predictions_of_another_kind_or_posterior_are_refused(posterior):
    confidence = IntervalConfidence(1.0, origin="another", predict=posterior.predict)
    with pytest.raises(BadInput, match="one of another posterior"):
        confidence.score(torch.randn(3, 2))
    with pytest.raises(BadInput, match="since no posterior is bound"):
        IntervalConfidence(1.0).score(torch.randn(3, 2))
    probs = torch.full((3, 2), 0.5)
    classes = sbmc.Prediction(probs, *probs.T, probs[:, 0])
    with pytest.raises(BadInput, match="`inputs` must be of a RegressionPrediction"):
        IntervalConfidence(1.0).score(classes)
    bare = RegressionPrediction(*[torch.ones(3, 1)] * 4)
    with pytest.raises(BadInput, match="one that knows its particles"):
        IntervalConfidence(1.0).score(bare)


@pytest.mark.parametrize("width", [0, -1.0, math.inf, math.nan, [1.0, 0.0], []])
def test_widths_that_are_none_are_refused(width):
    with pytest.raises(BadInput, match="`width` must be positive"):
        IntervalConfidence(width)
