"""Microcanonical Langevin: the turn of a direction, the energy, the bias, the step sizes."""

from __future__ import annotations

import math

import pytest
import torch
from targets import AnalyticTarget, flat_target, island_noise, skewed_log_likelihood

from sbmc import MCLMC, BadInput
from sbmc.samplers import microcanonical
from sbmc.samplers.mclmc import MCLMCRun

PARTICLES, DIM = 6, 5


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def unit(vectors):
    return vectors / vectors.norm(dim=-1, keepdim=True)


def turn_by_the_formula(direction, force, time):
    """B(t) as the docstring of the module has it, with hyperbolic functions."""
    d = direction.shape[1]
    size = force.norm(dim=-1, keepdim=True)
    e = force / size
    δ = time * size / (d - 1)
    cosine = (e * direction).sum(-1, keepdim=True)
    below = torch.cosh(δ) + cosine * torch.sinh(δ)
    turned = (direction + e * (torch.sinh(δ) + cosine * (torch.cosh(δ) - 1))) / below
    return turned, (d - 1) * below.log().squeeze(-1)


def small_steps(target, state, size, count):
    """Steps that never forget their direction, and the sum of their energy errors."""
    rng, total = island_noise(len(state.position)), torch.zeros(len(state.position)).double()
    sizes = torch.full((len(state.position),), size)
    for _ in range(count):
        state, info = microcanonical.step(rng, state, target, step_size=sizes, length=math.inf)
        total = total + info.energy_error
    return state, total


@pytest.fixture
def skewed():
    return AnalyticTarget(skewed_log_likelihood)


class TestTurn:
    def test_is_that_of_the_docstring(self):
        direction, force = unit(random(PARTICLES, DIM)), random(PARTICLES, DIM, seed=1)
        time = torch.rand(PARTICLES, 1).double()
        for ours, formula in zip(
            microcanonical._turn(direction, force, time),
            turn_by_the_formula(direction, force, time),
            strict=True,
        ):
            torch.testing.assert_close(ours, formula, rtol=1e-12, atol=1e-12)

    def test_keeps_the_length_and_is_undone_by_turning_back(self):
        direction, force = unit(random(PARTICLES, DIM)), random(PARTICLES, DIM, seed=1)
        time = torch.full((PARTICLES, 1), 0.7).double()
        turned, gained = microcanonical._turn(direction, force, time)
        torch.testing.assert_close(turned.norm(dim=-1), torch.ones(PARTICLES).double())
        back, lost = microcanonical._turn(-turned, force, time)
        torch.testing.assert_close(-back, direction)
        torch.testing.assert_close(lost, -gained)

    @pytest.mark.parametrize("size", [0.0, 1e-30, 1e15])
    def test_any_force_leaves_numbers(self, size):
        turned, gained = microcanonical._turn(
            unit(random(2, DIM)).float(), torch.full((2, DIM), size), torch.ones(2, 1).double()
        )
        assert torch.isfinite(turned).all()
        assert torch.isfinite(gained).all()
        if size == 1e15:  # whatever it was, it is that of the force now
            torch.testing.assert_close(turned, unit(torch.ones(2, DIM)))


class TestStep:
    def state(self, target):
        start = random(PARTICLES, DIM, seed=3)
        return microcanonical.init(island_noise(PARTICLES, seed=4), start, target)

    def test_moves_by_the_step_size_times_the_root_of_the_dimension(self, skewed):
        state = self.state(skewed)
        moved, _ = small_steps(skewed, state, 0.1, 1)
        expected = torch.full((PARTICLES,), 0.1 * math.sqrt(DIM)).double()
        distance = (moved.position - state.position).norm(dim=-1)
        torch.testing.assert_close(distance, expected, rtol=1e-6, atol=0)

    def test_is_reversible_while_it_forgets_nothing(self, skewed):
        state = self.state(skewed)
        there, gained = small_steps(skewed, state, 0.05, 4)
        back, lost = small_steps(skewed, there._replace(direction=-there.direction), 0.05, 4)
        torch.testing.assert_close(back.position, state.position)
        torch.testing.assert_close(lost, -gained, rtol=1e-6, atol=1e-9)

    def errors(self, target):
        """How the energy error over a fixed time falls when steps are halved."""
        sums = [small_steps(target, self.state(target), 0.02 / k, 10 * k)[1] for k in (1, 2)]
        return (sums[0] / sums[1]).median().item()

    def test_energy_error_is_of_second_order(self, skewed):
        assert self.errors(skewed) == pytest.approx(4, rel=0.1)

    def test_an_energy_without_the_prior_is_not_kept(self, skewed, monkeypatch):
        monkeypatch.setattr(
            microcanonical, "_potential", lambda position, values: -values.log_likelihood
        )
        assert self.errors(skewed) != pytest.approx(4, rel=0.1)

    def test_noise_turns_a_direction_as_much_as_is_stated(self):
        """E[u·u'] is near exp(−ε/L) where there is no force: from ν² d = exp(2ε/L) − 1."""
        particles, dim, size, length = 2_000, 50, 0.3, 0.5
        target = flat_target()
        start = torch.zeros(particles, dim, dtype=torch.float64)
        state = microcanonical.init(island_noise(particles), start, target)
        # In the middle of the prior there is no force before the drift, and little after it.
        flat = state._replace(gradient=torch.zeros_like(start))
        sizes = torch.full((particles,), size)
        moved, _ = microcanonical.step(
            island_noise(particles, 1), flat, target, step_size=sizes, length=length
        )
        along = (moved.direction * state.direction).sum(-1).mean().item()
        assert along == pytest.approx(math.exp(-size / length), abs=0.02)


class TestRun:
    def run(self, particles=8, seed=0, scale=None, **settings):
        """One island on a Gaussian whose coordinates have these precisions."""
        a = torch.linspace(1, 40, DIM).double() if scale is None else scale
        target = AnalyticTarget(lambda z: -((a - 1) * z.square()).sum(-1) / 2)
        rng = island_noise(particles, seed)
        (run,) = MCLMC(**settings).run(target, rng, rng.normal(len(a), torch.float64))
        return run

    @pytest.mark.parametrize("first", [1e-4, 0.9])
    def test_step_sizes_come_to_what_the_energy_variance_asks_for(self, first):
        run = self.run(epochs=2_000, energy_variance=0.01, step_size=first)
        reference = self.run(epochs=2_000, energy_variance=0.01, step_size=0.05, seed=1)
        assert run.step_size == pytest.approx(reference.step_size, rel=0.15)
        smaller = self.run(epochs=2_000, energy_variance=0.0001, step_size=0.05)
        assert smaller.step_size < 0.7 * reference.step_size

    def test_step_sizes_are_frozen_after_the_warm_up(self):
        sizes = []
        target = AnalyticTarget(skewed_log_likelihood)
        rng = island_noise(4)
        settings = MCLMC(epochs=40, warmup=0.5)
        settings.run(
            target,
            rng,
            rng.normal(DIM, torch.float64),
            report=lambda runs: sizes.append(runs[0].log_sizes.clone()),
        )
        assert all(torch.equal(each, sizes[-1]) for each in sizes[settings.warm_epochs - 2 :])
        assert not torch.equal(sizes[0], sizes[-1])

    def test_draws_are_evenly_spaced_and_end_with_the_last_position(self):
        run = self.run(epochs=100, draws=5)
        assert len(run.draws) == 5
        assert run.values.shape == (5, 8)
        assert (run.epochs, run.steps, run.sampling_steps) == (100, 99, 30)
        alone = self.run(epochs=100, draws=1)
        assert torch.equal(alone.draws[0], run.draws[-1])

    def test_a_smaller_energy_variance_has_a_smaller_bias(self):
        """At a large one narrow coordinates are too wide, as the docstring warns."""
        a = torch.tensor([1.0, 1, 1, 400, 400]).double()

        def width(variance):
            run = self.run(200, scale=a, epochs=1_500, energy_variance=variance, draws=5)
            return (a * torch.cat(run.draws).square()).mean(0)[3:].mean().item()

        assert width(1e-3) == pytest.approx(1, abs=0.15)
        assert width(3.0) > 1.3

    def test_a_step_that_leads_nowhere_is_taken_back(self):
        target = AnalyticTarget(
            lambda z: torch.where(z[:, 0] > 1.5, torch.nan, 0.0) + 0 * z.sum(-1)
        )
        rng = island_noise(6)
        (run,) = MCLMC(epochs=200, draws=10).run(target, rng, torch.zeros(6, 3).double())
        assert run.outcome == "completed"
        assert run.non_finite > 0
        assert all(torch.isfinite(each).all() for each in run.draws)

    def test_particles_that_are_put_back_leave_the_noise_of_other_islands_alone(self):
        target = AnalyticTarget(
            lambda z: torch.where(z[:, 0] > 1.5, torch.nan, 0.0) + 0 * z.sum(-1)
        )
        settings = MCLMC(epochs=60)

        def run(islands):
            rng = island_noise(3, islands=islands)
            start = torch.cat([torch.randn(3, 4, generator=g).clamp(max=1) for g in rng.generators])
            return settings.run(target, rng, start)

        together, (alone,) = run(3), run(1)
        assert together[0].non_finite > 0
        assert together[1].non_finite > 0
        assert torch.equal(together[0].draws[0], alone.draws[0])

    def test_a_particle_that_is_thrown_out_often_is_counted(self):
        run = MCLMCRun(0.1, sampling_steps=200, thrown=torch.tensor([0, 2, 3]))
        assert run.restarts == 1

    def test_one_coordinate_is_refused(self):
        with pytest.raises(BadInput, match="one parameter"):
            MCLMC(epochs=4).run(flat_target(), island_noise(2), torch.zeros(2, 1))

    def test_more_draws_than_epochs_are_refused(self):
        with pytest.raises(BadInput, match="`draws` must be at most 3"):
            MCLMC(epochs=10, draws=4)
