import math

import pytest
import torch
from checks import mean_and_covariance_fit
from targets import (
    AnalyticTarget,
    flat_target,
    skewed_log_likelihood,
)

from sbmc.samplers import HMC, hmc_kernel
from sbmc.samplers.chain_settings import DEFAULT_EPOCHS
from sbmc.samplers.noise import IslandNoise


def noise(particles: int, seed: int = 0, islands: int = 1) -> IslandNoise:
    generators = [torch.Generator().manual_seed(seed + i) for i in range(islands)]
    return IslandNoise(generators, particles)


def skewed_state(particles: int = 6, dim: int = 3) -> tuple[hmc_kernel.HMCState, AnalyticTarget]:
    target = AnalyticTarget(skewed_log_likelihood)
    start = torch.randn(particles, dim, generator=torch.Generator().manual_seed(3)).double()
    return hmc_kernel.init(start, target), target


def trajectory(state, momentum, target, step_size, count, temperature=1.0):
    particles = len(state.position)
    return hmc_kernel.trajectory(
        state,
        momentum,
        target,
        torch.full((particles,), step_size),
        torch.full((particles,), count),
        torch.tensor(temperature, dtype=torch.float64),
    )


class TestLeapfrog:
    def test_is_reversible(self):
        state, target = skewed_state()
        momentum = torch.randn(6, 3, generator=torch.Generator().manual_seed(4)).double()
        end, turned = trajectory(state, momentum, target, 0.1, 20)
        back, original = trajectory(end, -turned, target, 0.1, 20)
        assert (end.position - state.position).abs().max() > 0.5
        torch.testing.assert_close(back.position, state.position, atol=1e-12, rtol=0)
        torch.testing.assert_close(-original, momentum, atol=1e-12, rtol=0)

    def test_keeps_volume(self):
        # The Jacobian of (z, p) -> (z', p') has determinant 1, which the acceptance rule relies on.
        target = AnalyticTarget(skewed_log_likelihood)

        def flow(point):
            state = hmc_kernel.init(point[:2].unsqueeze(0), target)
            end, momentum = trajectory(state, point[2:].unsqueeze(0), target, 0.3, 5)
            return torch.cat([end.position[0], momentum[0]])

        point = torch.tensor([0.3, -0.4, 1.0, 0.2], dtype=torch.float64)
        width = 1e-5
        columns = [
            (flow(point + width * e) - flow(point - width * e)) / (2 * width)
            for e in torch.eye(4, dtype=torch.float64)
        ]
        assert torch.linalg.det(torch.stack(columns, 1)).item() == pytest.approx(1, abs=1e-6)

    def test_energy_error_is_of_second_order(self):
        state, target = skewed_state()
        momentum = torch.randn(6, 3, generator=torch.Generator().manual_seed(4)).double()
        heat = torch.tensor(1.0, dtype=torch.float64)
        start = hmc_kernel.hamiltonian(state, momentum, heat)
        errors = []
        for count in (20, 40, 80):
            end, turned = trajectory(state, momentum, target, 1.0 / count, count)
            errors.append((hmc_kernel.hamiltonian(end, turned, heat) - start).abs().mean().item())
        assert errors[0] / errors[1] == pytest.approx(4, rel=0.15)
        assert errors[1] / errors[2] == pytest.approx(4, rel=0.15)

    def test_one_step_follows_the_formula(self):
        state, target = skewed_state(particles=1, dim=1)
        p, ε, λ = 0.7, 0.2, 0.5
        z = state.position.item()

        def force(x):
            return λ * (3 - 2 * math.exp(x)) - x

        half = p + ε / 2 * force(z)
        expected = z + ε * half
        momentum = torch.tensor([[p]], dtype=torch.float64)
        end, turned = trajectory(state, momentum, target, ε, 1, λ)
        assert end.position.item() == pytest.approx(expected)
        assert turned.item() == pytest.approx(half + ε / 2 * force(expected))

    def test_a_quarter_period_of_the_prior_forgets_the_start(self):
        target = flat_target()
        state = hmc_kernel.init(torch.full((1, 2), 3.0, dtype=torch.float64), target)
        momentum = torch.tensor([[0.5, -1.0]], dtype=torch.float64)
        end, _ = trajectory(state, momentum, target, math.pi / 2 / 400, 400)
        torch.testing.assert_close(end.position, momentum, atol=1e-4, rtol=0)


class TestStep:
    def test_particles_with_fewer_steps_rest_and_cost_nothing(self):
        state, target = skewed_state()
        target.calls.clear()
        counts = torch.tensor([1, 1, 1, 4, 4, 4])
        hmc_kernel.step(noise(6), state, target, step_size=torch.full((6,), 0.1), leapfrog=counts)
        assert target.calls == [6, 3, 3, 3]

    def test_islands_in_one_batch_get_the_noise_they_would_get_alone(self):
        state, target = skewed_state()
        sizes, counts = torch.full((6,), 0.2), torch.full((6,), 3)
        together, _ = hmc_kernel.step(
            noise(3, seed=5, islands=2), state, target, step_size=sizes, leapfrog=counts
        )
        second = hmc_kernel.HMCState(*(field[3:] for field in state))
        alone, _ = hmc_kernel.step(
            noise(3, seed=6), second, target, step_size=sizes[:3], leapfrog=counts[:3]
        )
        torch.testing.assert_close(together.position[3:], alone.position)

    def test_a_change_of_temperature_costs_no_evaluation(self):
        state, target = skewed_state()
        count = target.evaluations.gradient
        sizes, counts = torch.full((6,), 0.2), torch.ones(6, dtype=torch.int64)
        for temperature in (0.1, 1.0):
            hmc_kernel.step(
                noise(6), state, target, step_size=sizes, leapfrog=counts, temperature=temperature
            )
        assert target.evaluations.gradient - count == 2 * 6


class TestDistribution:
    """Each check raises a false alarm with probability 1e-4, if the seed were drawn anew."""

    def test_the_prior_is_left_invariant_by_a_flat_likelihood(self):
        start = torch.randn(1000, 3, generator=torch.Generator().manual_seed(2)).double()
        (run,) = HMC(steps=3).run(flat_target(), noise(1000, seed=8), start)
        assert mean_and_covariance_fit(run.draws[0], torch.zeros(3), torch.eye(3).double())


class TestSettings:
    def test_without_steps_or_epochs_there_is_a_budget_of_160(self):
        (run,) = HMC().run(flat_target(), noise(3), torch.zeros(3, 2, dtype=torch.float64))
        assert run.epochs == DEFAULT_EPOCHS == 160

    def test_are_frozen_and_keyword_only(self):
        with pytest.raises(AttributeError):
            HMC(steps=3).steps = 4
        with pytest.raises(TypeError):
            HMC(3)
