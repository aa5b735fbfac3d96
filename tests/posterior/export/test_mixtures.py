"""The answers of a graph against the predictions that they are to equal."""

import pytest
import torch
from torch import nn

from sbmc.checks import BadInput
from sbmc.likelihoods import Categorical, Custom, Gaussian, Poisson, StudentT
from sbmc.posterior.export.mixtures import ClassMixture, NumberMixture, require_normal
from sbmc.prediction.mixture import mixed_prediction
from sbmc.prediction.samples import KeptOutputs, Samples


def outputs_and_weights(columns, particles=6):
    rng = torch.Generator().manual_seed(3)
    outputs = 2 * torch.randn(particles, 9, columns, generator=rng, dtype=torch.float64)
    weights = torch.rand(particles, generator=rng, dtype=torch.float64) + 0.05
    return outputs, weights / weights.sum()


def test_classes_are_mixed_as_predict_does():
    outputs, weights = outputs_and_weights(4)
    answers = ClassMixture(Categorical(), weights, with_features=True)(outputs)
    wanted = mixed_prediction(Categorical(), [(outputs, weights)])
    for name in ("total", "aleatoric", "epistemic"):
        assert torch.allclose(answers[name], getattr(wanted, name), atol=1e-12)
    assert torch.allclose(answers["probabilities"], wanted.probs, atol=1e-12)
    assert torch.allclose(answers["features"], wanted.features(), atol=1e-12)


def test_certain_particles_have_finite_entropies():
    outputs = torch.tensor([[[1e4, 0.0]], [[0.0, 1e4]]])
    answers = ClassMixture(Categorical(), torch.tensor([0.5, 0.5]), with_features=False)(outputs)
    assert answers["epistemic"].item() == pytest.approx(0.6931, abs=1e-4)
    assert answers["aleatoric"].item() == 0


def test_one_particle_has_no_epistemic_part():
    outputs, _ = outputs_and_weights(4, particles=1)
    answers = ClassMixture(Categorical(), torch.ones(1), with_features=False)(outputs.float())
    assert answers["epistemic"].tolist() == [0.0] * 9


@pytest.mark.parametrize(
    "likelihood", [Gaussian(noise_variance=0.3), Gaussian(), Gaussian(noise="network")]
)
def test_numbers_are_mixed_as_predict_does(likelihood):
    outputs, weights = outputs_and_weights(4)
    answers = NumberMixture(likelihood, weights, interval=0.8)(outputs)
    wanted = mixed_prediction(likelihood, [(outputs, weights)])
    for name in ("mean", "total", "aleatoric", "epistemic"):
        assert torch.allclose(answers[name], getattr(wanted, name), rtol=1e-12)
    samples = Samples(KeptOutputs(outputs), weights, likelihood)
    lower, upper = samples.quantiles([0.1, 0.9])
    scale = wanted.total.sqrt()
    assert float(((answers["lower"] - lower) / scale).abs().max()) < 1e-6
    assert float(((answers["upper"] - upper) / scale).abs().max()) < 1e-6


def test_a_large_mean_keeps_its_digits_in_float32():
    outputs = torch.tensor([[[1e4 - 0.5]], [[1e4 + 0.5]]])
    answers = NumberMixture(Gaussian(noise_variance=1e-4), torch.full((2,), 0.5), interval=0.5)(
        outputs
    )
    assert answers["epistemic"].item() == pytest.approx(0.25, rel=1e-6)
    assert [answers["lower"].item(), answers["upper"].item()] == pytest.approx(
        [1e4 - 0.5, 1e4 + 0.5], abs=1e-3
    )


@pytest.mark.parametrize("likelihood", [StudentT(scale=0.5), Poisson(), Custom(print)])
def test_others_have_mean_and_variances(likelihood):
    outputs, weights = outputs_and_weights(2)
    answers = NumberMixture(likelihood, weights, interval=None)(outputs)
    wanted = mixed_prediction(likelihood, [(outputs, weights)])
    for name in ("mean", "total", "aleatoric", "epistemic"):
        assert torch.allclose(answers[name], getattr(wanted, name), rtol=1e-12)
    with pytest.raises(BadInput, match=r"`interval` must be None .* has the mean and the three"):
        require_normal(likelihood, outputs, "interval", "intervals")


def test_the_score_of_a_width_is_that_of_the_mixture():
    outputs, weights = outputs_and_weights(4)
    width = torch.tensor([1.5, 6.0], dtype=torch.float64)
    likelihood = Gaussian(noise="network")
    answers = NumberMixture(likelihood, weights, interval=None, width=width)(outputs)
    samples = Samples(KeptOutputs(outputs), weights, likelihood)
    mean = answers["mean"]
    inside = samples.probability_within(mean - width / 2, mean + width / 2)
    assert torch.allclose(answers["score"], 1 - inside, atol=1e-6)
    assert not torch.allclose(answers["score"], torch.ones(9, dtype=torch.float64), atol=0.05)


def test_modules_have_no_parameters():
    mixture: nn.Module = NumberMixture(Gaussian(), torch.ones(1), interval=0.9)
    assert list(mixture.parameters()) == []
