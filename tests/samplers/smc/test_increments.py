import math

import pytest
import torch
from targets import AnalyticTarget, run_smc, skewed_log_likelihood

from sbmc.checks import BadInput
from sbmc.samplers import SMC
from sbmc.samplers.smc import increments
from sbmc.samplers.smc.increments import AdaptiveIncrement, Schedule, effective_sample_size, tilt

PARTICLES = 40


def even(count: int = PARTICLES) -> torch.Tensor:
    return torch.full((count,), -math.log(count), dtype=torch.float64)


def likelihoods(seed: int = 0, count: int = PARTICLES) -> torch.Tensor:
    """Few high, many low: turned upside down, another distribution."""
    rng = torch.Generator().manual_seed(seed)
    return -30 * torch.randn(count, generator=rng, dtype=torch.float64).abs().sqrt() - 100


def carried(seed: int = 1, count: int = PARTICLES) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(count, generator=rng, dtype=torch.float64).log_softmax(0)


def ess_by_hand(log_likelihood, log_weights, change) -> float:
    """From plain weights, without a function of the package."""
    alive = torch.isfinite(log_likelihood) & torch.isfinite(log_weights)
    logs = log_weights[alive] + change * log_likelihood[alive]
    weights = (logs - logs.max()).exp()
    return float(weights.sum() ** 2 / weights.square().sum())


class TestEffectiveSampleSize:
    @pytest.mark.parametrize("count", [1, 2, 7, 1000])
    def test_of_one_hot_is_one_and_of_uniform_is_all(self, count):
        one_hot = torch.full((count,), -torch.inf, dtype=torch.float64)
        one_hot[count // 2] = -3.0
        assert float(effective_sample_size(one_hot)) == 1
        uniform = torch.full((count,), -1e5, dtype=torch.float64)
        assert float(effective_sample_size(uniform)) == pytest.approx(count, rel=1e-12)

    def test_of_k_equal_ones_is_k_in_every_row(self):
        weights = torch.tensor([[0.0, 0.0, 0.0, -torch.inf], [5.0, 5.0, -torch.inf, -torch.inf]])
        torch.testing.assert_close(
            effective_sample_size(weights), torch.tensor([3.0, 2.0]).double()
        )

    def test_does_not_depend_on_the_scale_and_follows_the_formula(self):
        weights = torch.rand(9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        expected = float(weights.sum() ** 2 / weights.square().sum())
        for shift in (0.0, -4e3, 700.0):
            found = float(effective_sample_size(weights.log() + shift))
            assert found == pytest.approx(expected, rel=1e-9)


class TestTilt:
    def test_adds_the_increment_times_the_likelihood(self):
        found = tilt(carried(), likelihoods(), 0.25)
        torch.testing.assert_close(found, carried() + 0.25 * likelihoods())

    def test_a_likelihood_of_zero_is_a_weight_of_zero_even_without_an_increment(self):
        values = torch.tensor([-torch.inf, 1.0], dtype=torch.float64)
        for change in (0.0, 0.5):
            assert tilt(even(2), values, change).isneginf().tolist() == [True, False]

    def test_a_weight_of_zero_stays_one(self):
        weights = torch.tensor([-torch.inf, 0.0], dtype=torch.float64)
        assert tilt(weights, torch.tensor([5.0, 5.0]), 1.0).isneginf().tolist() == [True, False]


class TestAdaptive:
    @pytest.mark.parametrize("ρ", [0.1, 0.5, 0.9])
    @pytest.mark.parametrize("temperature", [0.0, 0.37])
    def test_hits_the_wanted_size(self, ρ, temperature):
        found = AdaptiveIncrement(ρ)(likelihoods(), even(), temperature)
        assert temperature < found < 1
        size = ess_by_hand(likelihoods(), even(), found - temperature)
        assert size == pytest.approx(ρ * PARTICLES, rel=1e-6)

    @pytest.mark.parametrize("ρ", [0.3, 0.8])
    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_with_carried_weights_it_is_a_fraction_of_what_they_left(self, ρ, seed):
        found = AdaptiveIncrement(ρ)(likelihoods(), carried(seed), 0.1)
        before = ess_by_hand(likelihoods(), carried(seed), 0.0)
        assert before < 0.8 * PARTICLES
        after = ess_by_hand(likelihoods(), carried(seed), found - 0.1)
        assert after == pytest.approx(ρ * before, rel=1e-6)

    @pytest.mark.parametrize("dead", [1, PARTICLES // 2, PARTICLES - 8])
    @pytest.mark.parametrize("weights", [even(), carried()])
    def test_with_likelihoods_of_zero_it_is_a_fraction_of_the_others(self, dead, weights):
        values = likelihoods()
        values[:dead] = -torch.inf
        found = AdaptiveIncrement(0.5)(values, weights, 0.0)
        before = ess_by_hand(values, weights, 0.0)
        after = ess_by_hand(values, weights, found)
        assert 0 < found < 1
        assert after == pytest.approx(before / 2, rel=1e-6)

    def test_with_one_particle_left_there_is_nothing_to_wait_for(self):
        values = torch.full((5,), -torch.inf, dtype=torch.float64)
        values[2] = -40.0
        assert AdaptiveIncrement(0.5)(values, even(5), 0.2) == 1.0

    @pytest.mark.parametrize("level", [0.0, -1e6, 1e300])
    def test_jumps_to_one_where_all_are_alike(self, level):
        values = torch.full((PARTICLES,), level, dtype=torch.float64)
        for temperature in (0.0, 0.3):
            assert AdaptiveIncrement(0.5)(values, even(), temperature) == 1.0

    def test_jumps_to_exactly_one_where_the_size_stays_above(self):
        assert AdaptiveIncrement(0.5)(1e-3 * likelihoods(), even(), 1 / 3) == 1.0

    def test_float32_likelihoods_are_found_in_double(self):
        values = likelihoods().float()
        found = AdaptiveIncrement(0.5)(values, even(), 0.0)
        size = ess_by_hand(values.double(), even(), found)
        assert size == pytest.approx(0.5 * PARTICLES, rel=1e-6)

    def test_has_no_answer_where_the_likelihoods_are_too_far_apart(self):
        values = torch.zeros(PARTICLES, dtype=torch.float64)
        values[1:] = -1e80
        assert AdaptiveIncrement(0.5)(values, even(), 0.0) == 0.0
        assert AdaptiveIncrement(0.5)(1e-60 * values, even(), 0.5) == 0.5

    def test_a_sign_error_is_caught(self, monkeypatch):
        monkeypatch.setattr(increments, "tilt", lambda w, values, change: w - change * values)
        found = AdaptiveIncrement(0.5)(likelihoods(), even(), 0.0)
        size = ess_by_hand(likelihoods(), even(), found)
        assert abs(size - 0.5 * PARTICLES) > 1

    def test_forgotten_weights_are_caught(self, monkeypatch):
        monkeypatch.setattr(increments, "tilt", lambda w, values, change: change * values)
        found = AdaptiveIncrement(0.5)(likelihoods(), carried(), 0.0)
        before = ess_by_hand(likelihoods(), carried(), 0.0)
        after = ess_by_hand(likelihoods(), carried(), found)
        assert abs(after - before / 2) > 1

    @pytest.mark.parametrize("ρ", [0, 1, -0.1, 1.5, math.nan, "0.5", True, None])
    def test_refuses_what_is_no_fraction(self, ρ):
        with pytest.raises(BadInput, match=r"`ess` must be a fraction in \(0, 1\), but got"):
            AdaptiveIncrement(ρ)

    def test_temperatures_of_a_run_increase_to_exactly_one_and_hit_the_size(self):
        target = AnalyticTarget(lambda z: 20 * skewed_log_likelihood(z))
        for run in run_smc(SMC(mutations=2, ess=0.6), target, 25, islands=4, dim=2):
            heats = [each["temperature"] for each in run.temperatures]
            assert len(heats) > 3
            assert all(a < b for a, b in zip([0.0, *heats], heats, strict=False))
            assert heats[-1] == 1.0
            sizes = [each["ess"] for each in run.temperatures]
            assert sizes[:-1] == pytest.approx([0.6 * 25] * (len(sizes) - 1), rel=1e-6)
            assert sizes[-1] >= 0.6 * 25 * (1 - 1e-6)


class TestSchedule:
    def test_is_followed_whatever_the_particles(self):
        rule = Schedule([0.1, 0.5, 1])
        asked = [0.0]
        while asked[-1] < 1:
            asked.append(rule(likelihoods(), carried(), asked[-1]))
        assert asked == [0.0, 0.1, 0.5, 1.0]
        assert type(asked[-1]) is float

    @pytest.mark.parametrize(
        "temperatures",
        [
            *([], [0.5], [0.5, 2.0], [0.0, 1.0], [-0.1, 1.0], [0.5, 0.4, 1.0], [0.5, 0.5, 1.0]),
            *([0.5, 1.0, 1.0], ["a", 1.0], [math.nan, 1.0], 1.0, "1"),
        ],
    )
    def test_refuses_what_does_not_lead_up_to_one(self, temperatures):
        words = "`temperatures` must be strictly increasing numbers above 0, the last of them 1"
        with pytest.raises(BadInput, match=words):
            Schedule(temperatures)
