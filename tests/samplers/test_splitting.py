"""HMC that follows the prior's flow exactly: rotations between the likelihood's kicks."""

from __future__ import annotations

import math

import pytest
import torch
from checks import distribution_fits, mean_and_covariance_fit
from targets import (
    AnalyticTarget,
    conjugate_regression,
    flat_target,
    island_noise,
    run_smc,
    sample_regression,
    skewed_cdf,
    skewed_log_likelihood,
)

from sbmc import HMC, SMC
from sbmc.samplers import hmc_kernel


def skewed():
    return AnalyticTarget(skewed_log_likelihood)


def trajectory(state, momentum, target, step_size, count, temperature=1.0):
    particles = len(state.position)
    return hmc_kernel.trajectory(
        state,
        momentum,
        target,
        torch.full((particles,), step_size, dtype=torch.float64),
        torch.full((particles,), count),
        torch.tensor(temperature, dtype=torch.float64),
        splitting=True,
    )


def begin(target, particles=6, dim=3):
    rng = torch.Generator().manual_seed(3)
    start = torch.randn(particles, dim, generator=rng).double()
    return hmc_kernel.init(start, target), torch.randn(particles, dim, generator=rng).double()


class TestFlow:
    def test_one_step_follows_the_formula(self):
        target = skewed()
        z, p, ε, λ = 0.4, 0.7, 0.3, 0.5
        state = hmc_kernel.init(torch.tensor([[z]], dtype=torch.float64), target)

        def force(x):
            return λ * (3 - 2 * math.exp(x))

        kicked = p + ε / 2 * force(z)
        there = z * math.cos(ε) + kicked * math.sin(ε)
        ahead = kicked * math.cos(ε) - z * math.sin(ε)
        momentum = torch.tensor([[p]], dtype=torch.float64)
        end, turned = trajectory(state, momentum, target, ε, 1, λ)
        assert end.position.item() == pytest.approx(there, rel=1e-12)
        assert turned.item() == pytest.approx(ahead + ε / 2 * force(there), rel=1e-12)

    def test_is_reversible(self):
        target = skewed()
        state, momentum = begin(target)
        end, turned = trajectory(state, momentum, target, 0.1, 20)
        back, original = trajectory(end, -turned, target, 0.1, 20)
        assert (end.position - state.position).abs().max() > 0.5
        torch.testing.assert_close(back.position, state.position, atol=1e-12, rtol=0)
        torch.testing.assert_close(-original, momentum, atol=1e-12, rtol=0)

    def test_energy_error_is_of_second_order(self):
        target = skewed()
        state, momentum = begin(target)
        heat = torch.tensor(1.0, dtype=torch.float64)
        start = hmc_kernel.hamiltonian(state, momentum, heat)
        errors = []
        for count in (20, 40, 80):
            end, turned = trajectory(state, momentum, target, 1.0 / count, count)
            errors.append((hmc_kernel.hamiltonian(end, turned, heat) - start).abs().mean().item())
        assert errors[0] / errors[1] == pytest.approx(4, rel=0.15)
        assert errors[1] / errors[2] == pytest.approx(4, rel=0.15)

    @pytest.mark.parametrize("size", [0.03, 0.4, 0.7, math.pi / 2])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_a_trajectory_of_a_quarter_period_is_exactly_a_quarter_turn(self, size, dtype):
        """Without data z' is p, and the step is always accepted, whatever the step size."""
        target = flat_target()
        settings = HMC(splitting=True, jitter=0.0)
        position = torch.randn(50, 4, generator=torch.Generator().manual_seed(1)).to(dtype)
        state = settings.begin(position, target)
        moved, info, _ = settings.advance(
            island_noise(50, seed=2), state, target, step_sizes=[size], temperature=torch.ones(1)
        )
        rng = torch.Generator().manual_seed(2)
        torch.rand(1, generator=rng, dtype=torch.float64)  # the jitter
        momentum = torch.randn(50, 4, generator=rng, dtype=dtype)
        rounding = 1e-13 if dtype == torch.float64 else 3e-5
        torch.testing.assert_close(moved.position, momentum, atol=rounding, rtol=0)
        torch.testing.assert_close(
            info.acceptance, torch.ones(50).double(), atol=20 * rounding, rtol=0
        )
        # Leapfrog does neither.
        plain = HMC(jitter=0.0)
        away, info, _ = plain.advance(
            island_noise(50, seed=2), state, target, step_sizes=[0.4], temperature=torch.ones(1)
        )
        assert (away.position - momentum).abs().max() > 0.01
        assert info.acceptance.min() < 0.999


class TestPlan:
    @pytest.mark.parametrize(
        ("size", "left", "count", "used"),
        [
            (0.4, None, 4, math.pi / 8),
            (math.pi / 8, None, 4, math.pi / 8),
            (0.05, None, 32, math.pi / 64),
            (1.5, None, 2, math.pi / 4),
            # What is left of a budget: a whole trajectory in more steps, or a part of one.
            (0.4, 5, 5, math.pi / 10),
            (0.4, 2, 2, math.pi / 8),
            (0.4, 6, 4, math.pi / 8),
        ],
    )
    def test_cuts_a_trajectory_into_equal_steps_no_longer_than_the_step_size(
        self, size, left, count, used
    ):
        next_step = HMC(splitting=True, jitter=0.0).next_step(size, 0.3, left)
        assert next_step == (count, pytest.approx(used))
        assert next_step.step_size <= size

    def test_a_fixed_number_of_steps_leaves_the_step_size_alone(self):
        assert HMC(splitting=True, leapfrog=3).next_step(0.4, 0.3, None) == (3, 0.4)

    def test_a_budget_is_spent_to_the_last(self):
        target = skewed()
        (run,) = HMC(epochs=60, splitting=True).run(target, island_noise(5), torch.zeros(5, 2))
        assert run.epochs == 60
        assert target.evaluations.gradient == 300

    def test_no_step_is_longer_than_a_quarter_turn(self):
        settings = HMC(steps=30, leapfrog=1, splitting=True)
        (run,) = settings.run(flat_target(), island_noise(5), torch.zeros(5, 2))
        assert run.step_size == math.pi / 2
        assert run.acceptance == pytest.approx([1.0] * 30)


class TestDistribution:
    """Each check raises a false alarm with probability 1e-4, if the seed were drawn anew."""

    @pytest.mark.parametrize("extra", [{}, {"scout": 9, "scout_step_size": 0.1}])
    def test_conjugate_regression(self, extra):
        settings = HMC(steps=24, step_size=0.15, adapt=False, splitting=True, **extra)
        found = sample_regression(0.25, settings)
        assert mean_and_covariance_fit(found, *conjugate_regression().posterior(0.25))

    def test_skewed_target(self):
        start = torch.zeros(2000, 1, dtype=torch.float64)
        (run,) = HMC(steps=20, splitting=True).run(skewed(), island_noise(2000), start)
        assert distribution_fits(run.draws[0][:, 0], skewed_cdf())

    def test_as_a_move_of_smc(self):
        settings = SMC(mutations=6, move=HMC(splitting=True), ess=0.8)
        (run,) = run_smc(settings, skewed(), 2000)
        assert run.draws[0].shape == (2000, 1)
        few = torch.randperm(2000, generator=torch.Generator().manual_seed(0))[:700]
        assert distribution_fits(run.draws[0][few, 0], skewed_cdf())

    def test_a_prior_that_is_also_in_the_kicks_is_caught(self):
        """A planted bug: the likelihood's kick has the prior's pull in it, which rotates too."""
        twice = AnalyticTarget(lambda z: skewed_log_likelihood(z) - z.square().sum(-1) / 2)
        start = torch.zeros(2000, 1, dtype=torch.float64)
        (run,) = HMC(steps=20, splitting=True).run(twice, island_noise(2000), start)
        assert not distribution_fits(run.draws[0][:, 0], skewed_cdf())


class TestSettings:
    def test_left_out_it_is_none_which_no_hash_shows(self):
        assert HMC().splitting is None
        assert HMC().largest_step == math.inf
