"""The likelihood engine, which knows no prior, and the target that is the engine behind a prior."""

import pickle
import re

import pytest
import torch
from torch import nn

import sbmc
from sbmc import BadInput
from sbmc.islands.island import start_at_prior
from sbmc.model.chunks import Chunks
from sbmc.model.parameters import select_parameters
from sbmc.prior.gaussian import factor_prior
from sbmc.randomness import Stream, generator
from sbmc.samplers.noise import IslandNoise
from sbmc.target.engine import LikelihoodEngine
from sbmc.target.target import Evaluations, Target


def make_net(dtype=torch.float64):
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(dtype)


def make_data(dtype=torch.float64, rows=30):
    rng = torch.Generator().manual_seed(5)
    inputs = torch.randn(rows, 3, generator=rng, dtype=torch.float64)
    return inputs.to(dtype), (inputs[:, 0] > 0.2).long()


def draws(target, particles=5):
    return target.prior.sample(particles, torch.Generator().manual_seed(6))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("particles_at_once", [2, 5])
@pytest.mark.parametrize("path", ["fused", "vmap", "loop"])
def test_a_target_is_the_engine_composed_with_the_prior(path, particles_at_once, dtype):
    target = sbmc.build_target(make_net(dtype), make_data(dtype), s=0.3, path=path)
    engine, prior = target.engine, target.prior
    engine.settle(chunks=Chunks(7, particles_at_once))
    z = draws(target)
    theta = prior.mean + prior.scale * z
    value, slope = engine(theta)
    for power in (1.0, 0.3):
        found = Target(engine, prior, power)(z)
        assert found.log_likelihood.dtype == torch.float64
        assert found.gradient.dtype == dtype
        torch.testing.assert_close(found.log_likelihood, power * value, rtol=1e-6, atol=0)
        # The product is made in float64 and rounded once.
        expected = (power * slope * prior.scale).to(dtype)
        torch.testing.assert_close(found.gradient, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("likelihood", ["categorical", sbmc.Gaussian(noise_variance=0.4)])
def test_the_gradient_in_the_models_own_coordinates_against_finite_differences(likelihood):
    inputs, labels = make_data()
    targets = labels if likelihood == "categorical" else torch.randn(30, 2).double()
    engine = sbmc.build_target(make_net(), (inputs, targets), likelihood=likelihood).engine
    theta = torch.randn(2, engine.dim, dtype=torch.float64)
    _, gradient = engine(theta)
    step = 1e-5 * torch.eye(engine.dim, dtype=torch.float64)
    for row, slope in zip(theta, gradient, strict=True):
        change = engine.log_likelihood(row + step) - engine.log_likelihood(row - step)
        torch.testing.assert_close(change / 2e-5, slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("particles_at_once", [2, 5])
def test_the_callers_parameters_stay_as_they_are(particles_at_once):
    engine = sbmc.build_target(make_net(), make_data()).engine
    engine.settle(chunks=Chunks(7, particles_at_once))
    theta = torch.randn(5, engine.dim, dtype=torch.float64)
    before = theta.clone()
    value, gradient = engine(theta)
    assert not theta.requires_grad
    assert torch.equal(theta, before)
    # What is returned is the caller's: to change it must not reach the next evaluation.
    copies = value.clone(), gradient.clone()
    value.zero_(), gradient.zero_()
    for found, expected in zip(engine(theta), copies, strict=True):
        assert torch.equal(found, expected)


def test_an_engine_serves_several_priors_which_count_apart():
    target = sbmc.build_target(make_net(), make_data(), s=0.3)
    anchor = target.prior.anchor
    other = Target(target.engine, factor_prior(anchor, 0.1, torch.ones_like(anchor)), power=2.0)
    z = draws(target)
    there = other.prior.to_whitened(target.prior.to_parameters(z))
    expected = 2 * target.log_likelihood(z)
    torch.testing.assert_close(other.log_likelihood(there), expected, rtol=1e-10, atol=0)
    other(z[:3])
    assert target.evaluations == Evaluations(gradient=0, forward=5)
    assert other.evaluations == Evaluations(gradient=3, forward=5)


def test_a_target_and_its_engine_can_be_sent_to_another_process():
    target = sbmc.build_target(make_net(), make_data(), chunk_size=7)
    z = draws(target)
    again = pickle.loads(pickle.dumps(target))
    assert again.engine.chunks == target.engine.chunks
    for found, expected in zip(again(z), target(z), strict=True):
        assert torch.equal(found, expected)


class TestBuildTarget:
    def test_it_is_what_fit_samples(self):
        net, data, seed, particles = make_net(), make_data(), 3, 4
        options = {"s": 0.2, "prior_variance": {"weight": 0.5, "bias": 2.0}}
        sampler = sbmc.HMC(steps=6, leapfrog=2, step_size=0.05)
        target = sbmc.build_target(net, data, **options)
        rng = generator(seed, Stream.ISLANDS, 0)
        start = start_at_prior(target.prior, rng, particles)
        (run,) = sampler.run(target, IslandNoise([rng], particles), start)
        posterior = sbmc.fit(
            net,
            data,
            **options,
            sampler=sampler,
            particles=particles,
            start="prior",
            seed=seed,
            progress=False,
        )
        ours = target.prior.to_parameters(run.draws[-1])
        torch.testing.assert_close(ours, posterior.positions[0], rtol=1e-12, atol=1e-12)

    def test_its_sum_is_that_of_the_module(self):
        net, (inputs, labels) = make_net(), make_data()
        target = sbmc.build_target(net, (inputs, labels), s=0.3)
        at_anchor = torch.zeros(1, target.dim, dtype=torch.float64)
        expected = -nn.functional.cross_entropy(net(inputs), labels, reduction="sum").detach()
        assert float(target.log_likelihood(at_anchor)) == pytest.approx(float(expected), rel=1e-12)

    def test_the_model_is_not_changed(self):
        net = make_net().train()
        before = select_parameters(net).flatten(net)
        target = sbmc.build_target(net, make_data(), dtype=torch.float32)
        target(draws(target))
        assert torch.equal(select_parameters(net).flatten(net), before)
        assert net.training
        assert target.prior.mean.dtype == torch.float32

    def test_one_layer_of_a_model(self):
        target = sbmc.build_target(make_net(), make_data(), parameters="last", chunk_size=11)
        assert target.dim == 4 * 2 + 2
        assert target.engine.examples.inputs.shape == (30, 4)  # features, computed once
        assert target.engine.chunks.examples == 11

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            (
                {"s": 0},
                "`s` must be in (0, 1]: at 0 the posterior is the network itself, with nothing to "
                "sample, but got 0.",
            ),
            ({"s": 1.5}, "`s` must be in (0, 1]"),
            ({"s": True}, "but got True."),
            ({"s": "0.1"}, "but got '0.1'."),
            ({"prior_variance": -1.0}, "`prior_variance` must be positive and finite, but got -1."),
            ({"likelihood": "gausian"}, "`likelihood` must be"),
            ({"parameters": "nothing"}, "`parameters` must be a selection that matches a trainabl"),
            ({"path": "fast"}, "`path` must be"),
            ({"chunk_size": 0}, "`chunk_size` must be a positive integer or None, but got 0."),
            ({"dtype": torch.int64}, "`dtype` must be a floating-point torch.dtype, but got torch"),
            ({"dtype": "float32"}, "`dtype` must be a floating-point torch.dtype, but got 'float3"),
            ({"model": 3}, "`model` must be a torch.nn.Module, but got 3."),
            (
                {"data": (torch.zeros(0, 3), torch.zeros(0).long())},
                "`data inputs` must be non-empty",
            ),
        ],
    )
    def test_bad_input_is_refused_before_any_computing(self, changes, words, monkeypatch):
        def computed(*_, **__):
            raise AssertionError("the data were gone through before the argument was refused")

        monkeypatch.setattr(LikelihoodEngine, "__init__", computed)
        arguments = {"model": make_net(), "data": make_data(), **changes}
        with pytest.raises(BadInput, match=re.escape(words)):
            sbmc.build_target(arguments.pop("model"), arguments.pop("data"), **arguments)
