"""Scouting: its formula, its price, what it is for, and that the chains after it are exact."""

from __future__ import annotations

import math
from typing import ClassVar

import pytest
import torch
from checks import distribution_fits, mean_and_covariance_fit
from targets import (
    AnalyticTarget,
    conjugate_regression,
    island_noise,
    sample_regression,
    skewed_cdf,
    skewed_log_likelihood,
)

from sbmc import HMC
from sbmc.checks import BadInput
from sbmc.samplers.scout import FRICTION, ORDER_SEED, scout

EXPECTED = [
    [0.35261846893833604, 0.5857212213763239],
    [-0.20203995771762984, -0.7150773182338147],
]


class SplitTarget(AnalyticTarget):
    """An analytic log likelihood as the sum of unequal parts."""

    def split(self, batches):
        shares = torch.arange(1, batches + 1, dtype=torch.float64)
        shares = shares / shares.sum()
        return [AnalyticTarget(lambda z, c=c: c * self.function(z)) for c in shares]


def skewed():
    return SplitTarget(skewed_log_likelihood)


def zeros(particles, dim=2):
    return torch.zeros(particles, dim, dtype=torch.float64)


class TestScout:
    def test_follows_its_formula(self):
        target, size = skewed(), 0.1
        found = scout(island_noise(4), zeros(4), target, epochs=2, step_size=size, batches=3)
        noise, order = island_noise(4), torch.Generator().manual_seed(ORDER_SEED)
        parts, c = target.split(3), math.exp(-FRICTION * size)
        z, p = zeros(4), noise.normal(2, torch.float64)
        for _ in range(2):
            for m in torch.randperm(3, generator=order):
                z = z + size / 2 * p
                p = c * p + math.sqrt(1 - c * c) * noise.normal(2, torch.float64)
                z = z + size / 2 * p
                p = p + size * (3 * parts[m](z).gradient - z)
        torch.testing.assert_close(found, z, rtol=1e-12, atol=1e-12)

    def test_costs_an_evaluation_a_pass_whatever_the_batches(self):
        for batches in (1, 4):
            target = skewed()
            scout(island_noise(5), zeros(5), target, epochs=7, step_size=0.1, batches=batches)
            assert target.evaluations.gradient == 7 * 5

    def test_is_pure_and_an_island_in_a_batch_travels_as_it_would_alone(self):
        options = {"epochs": 3, "step_size": 0.1}
        start = zeros(12)
        both = scout(island_noise(6, islands=2), start, skewed(), **options)
        alone = scout(island_noise(6, seed=1), zeros(6), skewed(), **options)
        assert torch.equal(both[6:], alone)
        assert torch.equal(start, zeros(12))

    def test_particles_that_a_long_step_throws_out_are_back_at_their_start(self, caplog):
        # The second half sits where steps of this size are unstable.
        steep = SplitTarget(lambda z: -1e3 * (z[:, 0] > 50) * (z[:, 0] - 100) ** 2)
        start = zeros(6)
        start[3:, 0] = 100.0
        with caplog.at_level("WARNING", logger="sbmc"):
            found = scout(island_noise(6), start, steep, epochs=5, step_size=0.1)
        assert torch.equal(found[3:], start[3:])
        assert (found[:3] != 0).all()
        assert "scouting threw 3 of 6 particles out" in caplog.text

    def test_a_single_batch_of_small_steps_samples_the_target(self):
        # False alarms at 1e-4. The error of the discretisation is far below what 2,000 chains show.
        settings = {"epochs": 200, "step_size": 0.05, "batches": 1}
        found = scout(island_noise(2000), zeros(2000, 1), skewed(), **settings)
        assert distribution_fits(found[:, 0], skewed_cdf())

    def test_a_mirrored_likelihood_is_caught(self):
        mirrored = SplitTarget(lambda z: skewed_log_likelihood(-z))
        settings = {"epochs": 200, "step_size": 0.05, "batches": 1}
        found = scout(island_noise(2000), zeros(2000, 1), mirrored, **settings)
        assert not distribution_fits(found[:, 0], skewed_cdf())


class TestChains:
    """Each statistical check raises a false alarm with probability 1e-4."""

    SCOUTED: ClassVar = {"scout": 10, "scout_step_size": 0.2, "scout_batches": 4}

    @pytest.mark.parametrize("extra", [{}, {"precondition": 2}, {"leapfrog": 4}])
    def test_the_budget_is_spent_to_the_last_and_counted_by_the_target(self, extra):
        target = skewed()
        seen = []
        settings = HMC(epochs=60, **self.SCOUTED, **extra)
        report = lambda runs: seen.append(runs[0].epochs)  # noqa: E731
        (run,) = settings.run(target, island_noise(5), zeros(5), report)
        assert run.epochs == seen[-1] == 60
        assert seen[: settings.scout] == list(range(1, settings.scout + 1))
        assert target.evaluations.gradient == 60 * 5

    def test_steps_come_on_top_of_it(self):
        settings = HMC(steps=3, leapfrog=2, step_size=0.1, **self.SCOUTED)
        (run,) = settings.run(skewed(), island_noise(5), zeros(5))
        assert run.epochs == 10 + 1 + 3 * 2

    @pytest.mark.parametrize("s", [0.25, 1.0])
    def test_are_exact_however_hot_the_scouting(self, s):
        # Chains that are left hot or cold by it forget that in the steps after it.
        settings = HMC(
            steps=24, step_size=0.2, adapt=False, scout=9, scout_step_size=0.1, scout_batches=12
        )
        mean, covariance = conjugate_regression().posterior(s)
        assert mean_and_covariance_fit(sample_regression(s, settings), mean, covariance)

    def test_without_steps_after_it_the_heat_would_show(self):
        # The check above can fail: one tiny step leaves the chains as the scouting left them.
        settings = HMC(
            steps=1,
            leapfrog=1,
            step_size=1e-3,
            adapt=False,
            scout=9,
            scout_step_size=0.1,
            scout_batches=12,
        )
        mean, covariance = conjugate_regression().posterior(1.0)
        assert not mean_and_covariance_fit(sample_regression(1.0, settings), mean, covariance)

    def test_a_launch_is_not_needed_after_it(self):
        assert HMC(epochs=60).launch == 1
        assert HMC(epochs=60, **self.SCOUTED).launch == 0
        assert HMC(epochs=60, launch=2, **self.SCOUTED).launch == 2

    def test_left_out_it_changes_nothing(self):
        # Numbers of the chains as they were before there was scouting.
        (run,) = HMC(epochs=60).run(skewed(), island_noise(2), zeros(2))
        expected = torch.tensor(EXPECTED, dtype=torch.float64)
        torch.testing.assert_close(run.draws[0], expected, rtol=1e-9, atol=1e-9)

    def test_more_batches_than_examples_are_refused(self):
        with pytest.raises(BadInput, match="`scout_batches` must be from 1 to the number of ex"):
            sample_regression(1.0, HMC(steps=1, scout=1, scout_step_size=0.1, scout_batches=13))


def test_progress_is_told_after_every_pass():
    told = []
    sampler = HMC(steps=1, leapfrog=1, step_size=0.1, scout=3, scout_step_size=0.1)
    noise = island_noise(4, islands=2)
    sampler.run(skewed(), noise, zeros(8), lambda runs: told.append([run.epochs for run in runs]))
    # three passes, then one leapfrog step from the first evaluation
    assert told == [[1, 1], [2, 2], [3, 3], [5, 5]]
