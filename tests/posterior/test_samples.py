"""Outputs of every particle, its modules, and predictions that ask for them again."""

import pickle

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import sbmc
from sbmc.checks import BadInput
from sbmc.islands.cost import Cost
from sbmc.islands.island import IslandReport
from sbmc.likelihoods import Categorical, Custom, Gaussian
from sbmc.model.parameters import select_parameters
from sbmc.model.predicting import Predictor
from sbmc.posterior.input_batches import weighted_particles
from sbmc.posterior.posterior import Posterior

EXAMPLES = 300
INPUTS = torch.randn(EXAMPLES, 4, generator=torch.Generator().manual_seed(1))
TARGETS = torch.randn(EXAMPLES, 3, generator=torch.Generator().manual_seed(2))
WITHIN = torch.tensor([[0.5, 0.3, 0.2, 0.0], [0.1, 0.2, 0.3, 0.4]], dtype=torch.float64)


def make_posterior(likelihood=None, islands=2, particles=4):
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 3))
    space = select_parameters(net)
    noise = torch.Generator().manual_seed(3)
    spread = 0.5 * torch.randn(islands, particles, space.dim, generator=noise)
    return Posterior(
        net,
        space,
        likelihood or Gaussian(noise_variance=0.2),
        space.flatten(net) + spread,
        log_evidence=torch.zeros(islands, dtype=torch.float64),
        islands=[IslandReport(i, "completed") for i in range(islands)],
        cost=Cost(1.0, 0.0, 0.0, 1.0, None),
        settings={"particles": particles, "islands": islands},
        within=WITHIN,
    )


def test_models_give_the_outputs_of_samples():
    posterior = make_posterior()
    before = posterior.space.flatten(posterior.model)
    samples = posterior.samples(INPUTS)
    modules, weights = zip(*posterior.models(), strict=True)
    assert len(modules) == 7  # one of eight has no weight
    assert torch.equal(samples.weights, torch.tensor(weights, dtype=torch.float64))
    assert sum(weights) == pytest.approx(1)
    with torch.no_grad():
        expected = torch.stack([module(INPUTS) for module in modules])
    torch.testing.assert_close(samples.outputs(), expected, rtol=1e-5, atol=1e-6)
    assert not any(module.training for module in modules)
    # They are copies: neither each other nor the posterior's own model.
    assert len({id(module) for module in modules}) == 7
    assert torch.equal(posterior.space.flatten(posterior.model), before)


def test_particles_without_a_weight_are_passed_over_where_they_are():
    posterior = make_posterior()
    positions, weights, chosen = weighted_particles(posterior)
    assert positions.data_ptr() == posterior.positions.data_ptr()
    assert torch.equal(posterior.weights.flatten()[chosen], weights)
    assert len(weights) == 7
    expected = posterior.outputs(positions[chosen], INPUTS)
    assert torch.equal(posterior.outputs(positions, INPUTS, chosen=chosen), expected)


def test_samples_come_in_batches_and_are_computed_when_asked_for(monkeypatch):
    posterior = make_posterior()
    calls = []
    outputs = Predictor.outputs
    monkeypatch.setattr(
        Predictor, "outputs", lambda self, *a, **k: calls.append(1) or outputs(self, *a, **k)
    )
    samples = posterior.samples(INPUTS)
    assert not calls
    shapes = [tuple(batch.shape) for batch in samples]
    assert len(shapes) > 1
    assert sum(shape[1] for shape in shapes) == EXAMPLES
    assert {shape[0] for shape in shapes} == {7}
    kept = samples.kept()
    count = len(calls)
    assert torch.equal(kept.outputs(), samples.outputs())
    assert torch.equal(kept.outputs(), kept[:].outputs())
    assert len(calls) > count  # of `samples`, once more
    count = len(calls)
    kept.outputs()
    assert len(calls) == count


def test_many_particles_go_with_fewer_examples(monkeypatch):
    posterior = make_posterior()
    whole = posterior.samples(INPUTS).outputs()
    monkeypatch.setattr("sbmc.prediction.samples.VALUES_AT_ONCE", 10 * 7 * 3)
    samples = posterior.samples(INPUTS)
    assert max(batch.shape[1] for batch in samples) == 10
    torch.testing.assert_close(samples.outputs(), whole)


@pytest.mark.parametrize("index", [slice(140, 150), [299, 0, 130], 7])
def test_indexed_samples_are_those_rows(index):
    samples = make_posterior().samples(INPUTS)
    rows = [index] if isinstance(index, int) else index
    torch.testing.assert_close(samples[index].outputs(), samples.outputs()[:, rows])
    torch.testing.assert_close(samples[index].inputs, INPUTS[rows])


# Predictions that ask for them.


@pytest.mark.parametrize("likelihood", [Gaussian(noise_variance=0.2), Categorical()])
def test_kept_and_recomputed_outputs_give_the_same_answers(likelihood):
    posterior = make_posterior(likelihood)
    lazy, kept = posterior.predict(INPUTS), posterior.predict(INPUTS, keep="outputs")
    torch.testing.assert_close(kept.mean, lazy.mean)
    assert kept.origin == lazy.origin == posterior.origin
    for kind in ("credible",) if likelihood.classification else ("credible", "prediction"):
        ours, theirs = (each.interval(0.7, kind=kind) for each in (lazy, kept))
        torch.testing.assert_close(ours.lower, theirs.lower)
        torch.testing.assert_close(ours.upper, theirs.upper)
    torch.testing.assert_close(lazy[5:9].sample(3), kept[5:9].sample(3))


def test_nothing_of_particles_is_held_unless_it_is_kept():
    posterior = make_posterior()
    lazy, kept = posterior.predict(INPUTS), posterior.predict(INPUTS, keep="outputs")
    assert lazy.particles.inputs is INPUTS
    assert not hasattr(lazy.particles._source, "_outputs")
    assert kept.particles._source._outputs.shape == (7, EXAMPLES, 3)


def test_the_mixture_is_that_of_the_log_scores():
    from sbmc.model.data import Examples
    from sbmc.posterior.log_scores import log_scores

    posterior = make_posterior()
    expected = log_scores(posterior, Examples(INPUTS, TARGETS))
    found = posterior.predict(INPUTS).log_prob(TARGETS)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_loader_is_gone_through_once():
    posterior = make_posterior()
    loader = DataLoader(TensorDataset(INPUTS), batch_size=50)
    with pytest.raises(BadInput, match="a DataLoader may give other rows"):
        posterior.samples(loader)
    with pytest.raises(BadInput, match=r"for a DataLoader.*keep='outputs'"):
        posterior.predict(loader).interval()
    kept = posterior.predict(loader, keep="outputs").interval()
    torch.testing.assert_close(kept.lower, posterior.predict(INPUTS).interval().lower)


def test_inputs_and_posteriors_that_changed_are_noticed():
    posterior, inputs = make_posterior(), INPUTS.clone()
    prediction = posterior.predict(inputs)
    prediction.interval()
    inputs += 1
    with pytest.raises(BadInput, match="before its inputs change"):
        prediction.interval()
    prediction = posterior.predict(INPUTS)
    posterior.positions = posterior.positions + 1
    with pytest.raises(BadInput, match="before its posterior change"):
        prediction.crps(TARGETS)


def test_inputs_may_be_arrays():
    posterior = make_posterior()
    tensor, array = posterior.predict(INPUTS), posterior.predict(INPUTS.numpy())
    torch.testing.assert_close(array.crps(TARGETS), tensor.crps(TARGETS))


def test_a_pickle_has_no_posterior_in_it():
    posterior = make_posterior()
    lazy, kept = posterior.predict(INPUTS), posterior.predict(INPUTS, keep="outputs")
    again = pickle.loads(pickle.dumps(lazy))
    assert torch.equal(again.mean, lazy.mean)
    assert again.particles is None
    again = pickle.loads(pickle.dumps(kept))
    assert torch.equal(again.quantile(0.4), kept.quantile(0.4))


def test_a_memory_limit_holds_for_what_is_computed_again(monkeypatch):
    posterior = make_posterior()
    seen = []
    outputs = Predictor.outputs

    def noted(self, *args):
        for part, values in outputs(self, *args):
            seen.append(len(values))
            yield part, values

    monkeypatch.setattr(Predictor, "outputs", noted)
    prediction = posterior.predict(INPUTS)
    prediction.particles._source._most = 2
    seen.clear()
    prediction.quantile(0.5)
    assert max(seen) == 2


def test_another_word_to_keep_is_refused():
    with pytest.raises(BadInput, match="`keep` must be 'outputs' or left out, but got 'samples'"):
        make_posterior().predict(INPUTS, keep="samples")


def test_a_fit_can_be_asked():
    torch.manual_seed(0)
    inputs = torch.randn(40, 2)
    targets = inputs.sum(1, keepdim=True) + 0.3 * torch.randn(40, 1)
    posterior = sbmc.fit(
        nn.Linear(2, 1),
        (inputs, targets),
        s=1,
        particles=8,
        likelihood=sbmc.Gaussian(noise_variance=0.09),
        progress=False,
    )
    prediction = posterior.predict(inputs)
    assert 0.7 < prediction.interval(0.9).covers(targets).double().mean() <= 1
    assert prediction.crps(targets).mean() < prediction.mean.sub(targets).abs().mean()


def test_learned_noise_is_in_the_outputs_of_every_particle():
    torch.manual_seed(0)
    inputs = torch.randn(60, 2)
    targets = inputs.sum(1) + 0.3 * torch.randn(60)
    posterior = sbmc.fit(
        nn.Linear(2, 1), (inputs, targets), s=1, particles=6, likelihood="gaussian", progress=False
    )
    prediction = posterior.predict(inputs)
    outputs = posterior.samples(inputs).outputs()
    assert outputs.shape == (6, 60, 2)
    with torch.no_grad():
        by_modules = torch.stack([module(inputs) for module, _ in posterior.models()])
    # A module is what `fit` was given: a network without noise.
    torch.testing.assert_close(outputs[..., :1], by_modules)
    assert all(set(module.state_dict()) == {"weight", "bias"} for module, _ in posterior.models())
    variances = outputs[..., 1].double().exp()
    torch.testing.assert_close(prediction.aleatoric.squeeze(1), variances.mean(0))
    # Each particle has its own noise, and the quantiles are those of their mixture.
    assert variances.std(0).min() > 0
    scale = variances.sqrt()
    at = (prediction.quantile(0.9).squeeze(1) - outputs[..., 0]) / scale
    torch.testing.assert_close(
        torch.special.ndtr(at).mean(0), torch.full((60,), 0.9, dtype=torch.float64)
    )


def test_a_likelihood_without_a_distribution_answers_what_it_can():
    def function(outputs, targets):
        return -(outputs - targets).abs().sum(-1)

    posterior = make_posterior(Custom(function))
    prediction = posterior.predict(INPUTS)
    densities = function(posterior.samples(INPUTS).outputs(), TARGETS)
    weights = posterior.samples(INPUTS).weights.log().unsqueeze(1)
    torch.testing.assert_close(
        prediction.log_prob(TARGETS), torch.logsumexp(densities.double() + weights, 0)
    )
    assert prediction.interval(kind="credible").lower.shape == (EXAMPLES, 3)
    assert "lower_0" not in prediction.to_pandas()
    for question in (prediction.interval, lambda: prediction.crps(TARGETS)):
        with pytest.raises(BadInput, match="one with a predictive distribution"):
            question()
