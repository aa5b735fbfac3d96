import pytest
import torch
from checks import distribution_fits, mean_and_covariance_fit
from targets import AnalyticTarget, flat_target, island_noise, skewed_cdf, skewed_log_likelihood

from sbmc.samplers import pcn
from sbmc.samplers.metropolis import MetropolisInfo


def first_coordinate(z):
    """A likelihood that knows one coordinate, whatever the number of the others."""
    return skewed_log_likelihood(z[:, :1])


def plain_walk(rng, state, target, *, step_size, temperature=1.0):
    """A planted bug: a random walk that weighs the prior as if its proposal knew nothing of it."""
    noise = rng.normal(state.position.shape[1], state.position.dtype)
    uniform = rng.uniform()
    position = state.position + step_size.unsqueeze(-1) * noise
    value = target.log_likelihood(position)
    norms = position.square().sum(-1) - state.position.square().sum(-1)
    ratio = temperature * (value - state.log_likelihood) - norms / 2
    acceptance = ratio.clamp(max=0).exp()
    accepted = uniform < acceptance
    merged = pcn.PCNState(
        torch.where(accepted.unsqueeze(-1), position, state.position),
        torch.where(accepted, value, state.log_likelihood),
    )
    return merged, MetropolisInfo(acceptance, accepted, torch.zeros_like(accepted))


def chains(log_likelihood, *, dim=1, steps=80, size=0.5, particles=2000, seed=4, step=None):
    """Where independent chains have got to from the prior, and their acceptance on the way."""
    target = AnalyticTarget(log_likelihood)
    rng = island_noise(particles, seed=seed)
    state = pcn.init(rng.normal(dim, torch.float64), target)
    rates = []
    for _ in range(steps):
        sizes = torch.full((particles,), size, dtype=torch.float64)
        state, info = (step or pcn.step)(rng, state, target, step_size=sizes)
        rates.append(info.acceptance)
    return state.position, torch.stack(rates)


class TestStep:
    def test_follows_the_formula(self):
        target = AnalyticTarget(skewed_log_likelihood)
        start = torch.tensor([[0.4, -0.3]], dtype=torch.float64)
        state = pcn.init(start, target)
        β = torch.tensor([0.6], dtype=torch.float64)
        moved, info = pcn.step(island_noise(1), state, target, step_size=β, temperature=0.5)
        rng = torch.Generator().manual_seed(0)
        noise = torch.randn(1, 2, generator=rng, dtype=torch.float64)
        uniform = torch.rand(1, generator=rng, dtype=torch.float64)
        there = 0.8 * start + 0.6 * noise
        gain = skewed_log_likelihood(there) - skewed_log_likelihood(start)
        expected = (0.5 * gain).exp().clamp(max=1)
        torch.testing.assert_close(info.acceptance, expected)
        torch.testing.assert_close(moved.position, there if uniform < expected else start)

    def test_a_step_of_one_is_a_fresh_draw(self):
        target = flat_target()
        state = pcn.init(torch.full((3, 2), 9.0, dtype=torch.float64), target)
        moved, _ = pcn.step(island_noise(3), state, target, step_size=torch.ones(3))
        fresh = torch.randn(3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        assert torch.equal(moved.position, fresh)


class TestDistribution:
    """Each check raises a false alarm with probability 1e-4, if the seed were drawn anew."""

    @pytest.mark.parametrize("size", [0.01, 0.3, 0.8, 1.0])
    def test_the_prior_is_left_invariant_by_a_flat_likelihood(self, size):
        found, rates = chains(flat_target().function, dim=3, steps=4, size=size)
        assert (rates == 1).all()
        assert mean_and_covariance_fit(found, torch.zeros(3).double(), torch.eye(3).double())

    def test_a_walk_that_forgets_to_contract_is_caught(self):
        def grows(rng, state, target, *, step_size, temperature=1.0):
            noise = rng.normal(state.position.shape[1], state.position.dtype)
            position = state.position + step_size.unsqueeze(-1) * noise
            moved = pcn.PCNState(position, target.log_likelihood(position))
            return moved, MetropolisInfo(rng.uniform(), rng.uniform() >= 0, rng.uniform() < 0)

        found, _ = chains(flat_target().function, dim=3, steps=4, size=0.3, step=grows)
        assert not mean_and_covariance_fit(found, torch.zeros(3).double(), torch.eye(3).double())

    def test_skewed_target(self):
        found, _ = chains(skewed_log_likelihood)
        assert distribution_fits(found[:, 0], skewed_cdf())

    def test_a_prior_counted_twice_is_caught(self):
        twice, _ = chains(lambda z: skewed_log_likelihood(z) - z.square().sum(-1) / 2)
        assert not distribution_fits(twice[:, 0], skewed_cdf())


class TestDimension:
    """The mean over 400 chains has a standard error below 0.02: 0.1 is five of them.

    A false alarm would come once in a million runs, if the seed were drawn anew.
    """

    @staticmethod
    def acceptance(dim, step=None):
        _, rates = chains(first_coordinate, dim=dim, steps=10, particles=400, size=0.5, step=step)
        return float(rates.mean())

    def test_acceptance_does_not_fall(self):
        small, *larger = (self.acceptance(dim) for dim in (2, 200, 2000))
        assert 0.2 < small < 0.9
        assert larger == pytest.approx([small] * 2, abs=0.1)

    def test_that_of_a_plain_random_walk_does(self):
        small, *larger = (self.acceptance(dim, plain_walk) for dim in (2, 200, 2000))
        assert 0.2 < small < 0.9
        assert larger[0] < small / 3
        assert larger[1] < 1e-6
