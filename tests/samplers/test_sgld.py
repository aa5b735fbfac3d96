import math
from functools import partial

import pytest
import torch
from checks import distribution_fits, mean_and_covariance_fit
from stationary import FixedNoise, order_of, orders, stationary
from targets import (
    AnalyticTarget,
    conjugate_regression,
    island_noise,
    sample_regression,
    skewed_cdf,
    skewed_log_likelihood,
)

import sbmc.target.minibatch
from sbmc import SGLD
from sbmc.samplers import sgld
from sbmc.target.target import Evaluation

ALL = [[(0, 1, 2, 3)]]


def moments(size, passes, step=sgld.step):
    return stationary(partial(step, step_size=size), sgld.SGLDState, 1, passes)


def too_much_noise(rng, state, estimate, *, step_size, temperature=1.0):
    """A planted bug: the noise of the other convention, N(0, 2ε)."""
    louder = FixedNoise([math.sqrt(2) * rng.normal(1, torch.float64)])
    return sgld.step(louder, state, estimate, step_size=step_size, temperature=temperature)


class TestStep:
    def test_follows_the_formula(self):
        target = AnalyticTarget(skewed_log_likelihood)
        z, ε, λ, ξ = 0.4, 0.3, 0.6, -1.3
        state = sgld.SGLDState(torch.tensor([[z]], dtype=torch.float64))
        moved, info = sgld.step(
            FixedNoise([torch.tensor([[ξ]], dtype=torch.float64)]),
            state,
            target,
            step_size=ε,
            temperature=λ,
        )
        expected = z + ε / 2 * (λ * (3 - 2 * math.exp(z)) - z) + math.sqrt(ε) * ξ
        assert moved.position.item() == pytest.approx(expected, rel=1e-9)
        assert info.log_likelihood.item() == pytest.approx(3 * z - 2 * math.exp(z))
        assert not info.non_finite.any()

    def test_is_pure_and_costs_one_evaluation(self):
        target = AnalyticTarget(skewed_log_likelihood)
        state = sgld.init(island_noise(5), torch.zeros(5, 2).double())
        assert target.evaluations.gradient == 0
        sgld.step(island_noise(5), state, target, step_size=0.1)
        assert torch.equal(state.position, torch.zeros(5, 2).double())
        assert target.evaluations.gradient == 5

    def test_tells_what_is_not_finite(self):
        target = AnalyticTarget(lambda z: torch.where(z[:, 0] > 0, torch.nan, 1.0) * z[:, 0])
        state = sgld.SGLDState(torch.tensor([[-1.0], [1.0], [-2.0]]))
        _, info = sgld.step(island_noise(3), state, target, step_size=0.1)
        assert info.non_finite.tolist() == [False, True, False]


class TestBias:
    """Exact: stationary moments of the real step on a Gaussian target; see `stationary`."""

    @pytest.mark.parametrize("size", [0.01, 0.1, 0.3])
    def test_all_data_give_the_variance_of_the_docstring(self, size):
        found = moments(size, ALL)
        precision = 7.5
        assert found.variance == pytest.approx(1 / (1 - size * precision / 4) - 1, rel=1e-9)
        assert found.mean == pytest.approx(0, abs=1e-9)

    @pytest.mark.parametrize("batch", [1, 2])
    def test_is_of_first_order_with_batches_without_replacement(self, batch):
        assert order_of(lambda e: moments(e, orders(batch)).variance, 0.002) == pytest.approx(
            1, abs=0.1
        )
        assert order_of(lambda e: moments(e, orders(batch)).mean, 0.002) == pytest.approx(
            1, abs=0.1
        )
        assert abs(moments(1e-4, orders(batch)).variance) < 1e-3

    def test_wrong_noise_is_caught(self):
        found = moments(1e-4, orders(1), too_much_noise)
        assert found.variance > 0.9

    def test_a_missing_scale_is_caught(self, monkeypatch):
        """The second planted bug: the data count for a quarter of what they are."""
        import stationary as exact

        whole = exact.estimate

        def unscaled(batch):
            return lambda z: Evaluation(*(part / 4 for part in whole(batch)(z)))

        monkeypatch.setattr(exact, "estimate", unscaled)
        found = moments(1e-4, orders(1))
        assert found.variance > 0.5
        assert abs(found.mean) > 0.01


def chains(step=sgld.step, size=0.02, steps=400, particles=1000):
    """Where independent chains on the skewed target have got to from the prior."""
    target = AnalyticTarget(skewed_log_likelihood)
    rng = island_noise(particles, seed=4)
    state = sgld.init(rng, rng.normal(1, torch.float64))
    for _ in range(steps):
        state, _ = step(rng, state, target, step_size=size)
    return state.position[:, 0]


class TestDistribution:
    """Each check raises a false alarm with probability 1e-4, if the seed were drawn anew.

    The bias is small beside what so many chains could show: at these step sizes it is about two
    per cent of a variance.
    """

    def test_skewed_target(self):
        assert distribution_fits(chains(), skewed_cdf())

    def test_wrong_noise_is_caught_there(self):
        def louder(rng, state, estimate, *, step_size):
            twice = FixedNoise([math.sqrt(2) * rng.normal(1, torch.float64)])
            return sgld.step(twice, state, estimate, step_size=step_size)

        assert not distribution_fits(chains(louder), skewed_cdf())

    @pytest.mark.parametrize("s", [0.1, 1.0])
    def test_conjugate_regression(self, s):
        mean, covariance = conjugate_regression().posterior(s)
        sampler = SGLD(epochs=120, batch_size=6, step_size=0.004 if s == 1 else 0.016)
        assert mean_and_covariance_fit(sample_regression(s, sampler), mean, covariance)

    def test_a_missing_scale_is_caught_there(self, monkeypatch):
        evaluate = sbmc.target.minibatch.MiniBatches.__call__

        def unscaled(self, z, index):
            share = index.shape[1] / len(self)
            return Evaluation(*(share * part for part in evaluate(self, z, index)))

        monkeypatch.setattr(sbmc.target.minibatch.MiniBatches, "__call__", unscaled)
        mean, covariance = conjugate_regression().posterior(1.0)
        sampler = SGLD(epochs=120, batch_size=6, step_size=0.004)
        assert not mean_and_covariance_fit(sample_regression(1.0, sampler), mean, covariance)
