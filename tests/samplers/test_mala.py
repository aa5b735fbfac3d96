import math

import pytest
import torch
from checks import distribution_fits, mean_and_covariance_fit
from targets import (
    AnalyticTarget,
    conjugate_regression,
    flat_target,
    island_noise,
    skewed_cdf,
    skewed_log_likelihood,
)

from sbmc.samplers import hmc_kernel, mala


def skewed_state(particles=8, dim=3):
    target = AnalyticTarget(skewed_log_likelihood)
    start = torch.randn(particles, dim, generator=torch.Generator().manual_seed(3)).double()
    return mala.init(start, target), target


class TestStep:
    def test_follows_the_formula(self):
        target = AnalyticTarget(skewed_log_likelihood)
        z, ε, λ = 0.4, 0.3, 0.6
        state = mala.init(torch.tensor([[z]], dtype=torch.float64), target)
        moved, info = mala.step(
            island_noise(1, seed=2), state, target, step_size=torch.tensor([ε]), temperature=λ
        )
        rng = torch.Generator().manual_seed(2)
        ξ = torch.randn(1, 1, generator=rng, dtype=torch.float64).item()
        u = torch.rand(1, generator=rng, dtype=torch.float64).item()

        def log_density(x):
            return λ * (3 * x - 2 * math.exp(x)) - x**2 / 2

        def mean(x):
            return x + ε**2 / 2 * (λ * (3 - 2 * math.exp(x)) - x)

        there = mean(z) + ε * ξ
        forth = -((there - mean(z)) ** 2) / (2 * ε**2)
        back = -((z - mean(there)) ** 2) / (2 * ε**2)
        ratio = log_density(there) + back - log_density(z) - forth
        assert info.acceptance.item() == pytest.approx(min(1, math.exp(ratio)), rel=1e-6)
        expected = there if u < info.acceptance.item() else z
        assert moved.position.item() == pytest.approx(expected, rel=1e-7)

    @pytest.mark.parametrize("size", [0.2, 0.6, 1.1])
    @pytest.mark.parametrize("temperature", [0.3, 1.0])
    def test_is_hmc_with_one_leapfrog_step(self, size, temperature):
        """From the same noise, the same positions and acceptance, whatever the step size."""
        state, target = skewed_state(40)
        sizes = torch.full((40,), size, dtype=torch.float64)
        ours, told = mala.step(
            island_noise(40), state, target, step_size=sizes, temperature=temperature
        )
        theirs, info = hmc_kernel.step(
            island_noise(40),
            hmc_kernel.init(state.position, target),
            target,
            step_size=sizes,
            leapfrog=torch.ones(40, dtype=torch.int64),
            temperature=temperature,
        )
        torch.testing.assert_close(told.acceptance, info.acceptance, rtol=0, atol=1e-10)
        torch.testing.assert_close(ours.position, theirs.position, rtol=0, atol=1e-10)
        torch.testing.assert_close(ours.log_likelihood, theirs.log_likelihood, rtol=0, atol=1e-10)
        torch.testing.assert_close(ours.gradient, theirs.gradient, rtol=0, atol=1e-10)
        # Something was at stake: acceptance differs from particle to particle.
        assert told.acceptance.std() > 1e-3


def chains(log_likelihood, *, dim=1, steps=60, size=0.6, particles=2000):
    """Where independent chains have got to from the prior."""
    target = AnalyticTarget(log_likelihood)
    rng = island_noise(particles, seed=4)
    state = mala.init(rng.normal(dim, torch.float64), target)
    for _ in range(steps):
        state, _ = mala.step(rng, state, target, step_size=torch.full((particles,), size))
    return state.position


def uncorrected(rng, state, target, *, step_size, temperature=1.0):
    """A planted bug: the proposal is taken for a symmetric one."""
    ε = step_size.unsqueeze(-1)
    noise = rng.normal(state.position.shape[1], state.position.dtype)
    uniform = rng.uniform()
    position = state.position + ε**2 / 2 * (state.gradient - state.position) + ε * noise
    proposal = mala.MALAState(position, *target(position))

    def log_density(at):
        return at.log_likelihood - at.position.square().sum(-1) / 2

    accepted = uniform < (log_density(proposal) - log_density(state)).exp()
    rows = accepted.unsqueeze(-1)
    merged = mala.MALAState(
        torch.where(rows, proposal.position, state.position),
        torch.where(accepted, proposal.log_likelihood, state.log_likelihood),
        torch.where(rows, proposal.gradient, state.gradient),
    )
    return merged, None


class TestDistribution:
    """Each check raises a false alarm with probability 1e-4, if the seed were drawn anew."""

    def test_skewed_target(self):
        assert distribution_fits(chains(skewed_log_likelihood)[:, 0], skewed_cdf())

    def test_a_wrong_proposal_correction_is_caught(self, monkeypatch):
        monkeypatch.setattr(mala, "step", uncorrected)
        assert not distribution_fits(chains(skewed_log_likelihood)[:, 0], skewed_cdf())

    def test_a_mirrored_likelihood_is_caught(self):
        mirrored = chains(lambda z: skewed_log_likelihood(-z))
        assert not distribution_fits(mirrored[:, 0], skewed_cdf())

    def test_conjugate_regression(self):
        problem = conjugate_regression()
        mean, covariance = problem.posterior(1.0)
        found = chains(problem.target(1.0).function, dim=3, size=0.12, steps=150, particles=600)
        assert mean_and_covariance_fit(problem.parameters(1.0, found), mean, covariance)

    def test_the_prior_is_left_invariant_by_a_flat_likelihood(self):
        found = chains(flat_target().function, dim=3, steps=3)
        assert mean_and_covariance_fit(found, torch.zeros(3).double(), torch.eye(3).double())
