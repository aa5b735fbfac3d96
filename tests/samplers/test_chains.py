import math

import pytest
import torch
from targets import AnalyticTarget, flat_target, skewed_log_likelihood

from sbmc.checks import BadInput
from sbmc.samplers import GHMC, HMC, MALA, PCN, SMC
from sbmc.samplers.chain_settings import DEFAULT_EPOCHS
from sbmc.samplers.noise import IslandNoise


def run(settings, particles=5, islands=1, target=None, start=None, seed=0):
    target = target or AnalyticTarget(skewed_log_likelihood)
    rng = IslandNoise([torch.Generator().manual_seed(seed + i) for i in range(islands)], particles)
    if start is None:
        start = torch.zeros(particles * islands, 2, dtype=torch.float64)
    return settings.run(target, rng, start), target


def steep():
    """A likelihood of precision 100 in every direction."""
    return AnalyticTarget(lambda z: -50 * z.square().sum(-1))


class TestBudget:
    @pytest.mark.parametrize("epochs", [2, 7, 30, 161])
    @pytest.mark.parametrize("length", [{"leapfrog": 1}, {"leapfrog": 4}, {}])
    def test_epochs_are_spent_to_the_last_and_counted_by_the_target(self, epochs, length):
        ((island,), target) = run(HMC(epochs=epochs, **length))
        assert island.epochs == epochs
        assert target.evaluations.gradient == epochs * 5

    def test_steps_cost_their_leapfrog_steps_and_the_first_evaluation(self):
        ((island,), target) = run(HMC(steps=9, leapfrog=3, step_size=0.1))
        assert island.epochs == 1 + 9 * 3
        assert target.evaluations.gradient == (1 + 9 * 3) * 5

    def test_the_last_trajectories_of_a_budget_are_no_stumps(self):
        ((island,), _) = run(HMC(epochs=200, step_size=0.05, adapt=False, jitter=0.0))
        wanted = round(math.pi / 2 / 0.05)
        assert all(0.5 * wanted <= length <= 1.5 * wanted for length in island.leapfrog)

    def test_trajectory_lengths_are_jittered_around_the_quarter_period(self):
        ((island,), _) = run(HMC(steps=40, step_size=0.03, adapt=False, jitter=0.2))
        lengths = torch.tensor(island.leapfrog) * 0.03
        assert lengths.min() >= 0.79 * math.pi / 2
        assert lengths.max() <= 1.21 * math.pi / 2
        assert lengths.std() > 0.05


class TestAdaptation:
    def test_follows_the_rule_during_warmup_and_is_frozen_after_it(self):
        settings = HMC(steps=60, leapfrog=1, step_size=3.0)
        ((island,), _) = run(settings, particles=50)
        size, sizes = 3.0, []
        for acceptance in island.acceptance[:30]:
            size *= 0.7 if acceptance < 0.6 else 1.1 if acceptance > 0.8 else 1.0
            sizes.append(size)
        assert len(set(sizes)) > 3
        assert island.step_size == pytest.approx(sizes[-1])
        assert island.warm_steps == 30

    def test_launch_is_taken_without_a_test_and_leaves_the_step_size_alone(self):
        # A step this long from the mode is never accepted; with a launch every particle moves.
        start = torch.zeros(5, 30, dtype=torch.float64)
        options = {"steps": 2, "leapfrog": 1, "step_size": 0.12, "warmup": 0.5}
        ((moved,), _) = run(HMC(**options, launch=1), target=steep(), start=start)
        ((stuck,), _) = run(HMC(**options), target=steep(), start=start)
        assert (moved.draws[0] != 0).all()
        assert (stuck.draws[0] == 0).all()
        assert moved.step_size == 0.12
        assert (moved.launches, stuck.launches) == (1, 0)

    def test_an_unstable_launch_is_made_again_with_a_smaller_step(self):
        # Leapfrog is stable up to 2 / √101, about 0.2; 0.8 would carry the chains 10^20 away.
        start = torch.zeros(20, 30, dtype=torch.float64)
        settings = HMC(steps=24, step_size=0.8)
        ((island,), _) = run(settings, particles=20, target=steep(), start=start)
        assert island.launches == 1
        assert island.sampling_acceptance > 0.5
        # 600 numbers of the posterior N(0, 1 / 101): six standard errors of their mean square.
        spread = 101 * island.draws[0].square().mean()
        assert spread == pytest.approx(1, abs=6 * math.sqrt(2 / 600))

    def test_with_a_fixed_step_size_an_unstable_launch_is_left_out(self):
        start = torch.zeros(5, 30, dtype=torch.float64)
        settings = HMC(steps=2, leapfrog=3, step_size=0.8, launch=1, adapt=False)
        ((island,), _) = run(settings, target=steep(), start=start)
        assert (island.draws[0] == 0).all()
        assert (island.launches, island.step_size) == (1, 0.8)

    def test_islands_are_launched_each_for_itself(self):
        """The second sits in a well so steep that its first launch is refused."""
        place = torch.tensor([9.0, 0.0], dtype=torch.float64)

        def log_likelihood(z):
            return torch.where(z[:, 0] < 5, 0.0, -500 * (z - place).square().sum(-1))

        start = torch.stack([torch.zeros_like(place)] * 5 + [place] * 5)
        options = {"settings": HMC(steps=14, step_size=0.15), "seed": 3}
        target = AnalyticTarget(log_likelihood)
        together, _ = run(islands=2, target=target, start=start, **options)
        ((first,), _) = run(target=target, start=start[:5], **options)
        assert [each.launches for each in together] == [1, 1]
        assert together[1].step_size < together[0].step_size
        assert torch.equal(together[0].draws[0], first.draws[0])
        assert (together[1].draws[0] - place).abs().max() < 1

    def test_search_is_paid_for(self):
        ((given,), _) = run(HMC(steps=3, leapfrog=1, step_size=0.1))
        ((searched,), _) = run(HMC(steps=3, leapfrog=1))
        assert given.epochs == 4
        assert searched.epochs > 4


class TestDraws:
    def test_are_the_last_states_thinning_steps_apart(self):
        ((all_states,), _) = run(HMC(steps=20, leapfrog=1, draws=10))
        ((thinned,), _) = run(HMC(steps=20, leapfrog=1, draws=3, thinning=4))
        assert len(all_states.draws) == 10
        for kept, expected in zip(thinned.draws, all_states.draws[1::4], strict=True):
            assert torch.equal(kept, expected)

    def test_of_a_budget_with_fixed_leapfrog(self):
        ((island,), _) = run(HMC(epochs=41, leapfrog=2, step_size=0.1, draws=5, thinning=2))
        ((last,), _) = run(HMC(epochs=41, leapfrog=2, step_size=0.1))
        assert len(island.draws) == 5
        assert torch.equal(island.draws[-1], last.draws[0])


class TestIslands:
    def test_an_island_that_starts_non_finite_fails_alone(self):
        target = AnalyticTarget(lambda z: torch.where(z[:, 0] > 50, torch.inf, -(z[:, 0] ** 2)))
        start = torch.zeros(15, 2, dtype=torch.float64)
        start[7, 0] = 100.0
        islands, _ = run(HMC(steps=4), islands=3, target=target, start=start)
        assert [island.outcome for island in islands] == ["completed", "failed", "completed"]
        assert "1 of 5 particles after 0 steps" in islands[1].message
        assert islands[1].draws == []

    def test_islands_keep_their_own_step_sizes(self):
        # The second island sits where the likelihood is steep.
        target = AnalyticTarget(lambda z: -(z.square().sum(-1)) * (1 + z[:, 0].relu() ** 4))
        start = torch.zeros(10, 2, dtype=torch.float64)
        start[5:, 0] = 5.0
        islands, _ = run(HMC(steps=4, leapfrog=1), islands=2, target=target, start=start)
        assert islands[1].step_size < islands[0].step_size / 2

    def test_a_folded_island_equals_the_island_alone(self):
        folded, _ = run(HMC(epochs=60), islands=3, seed=10)
        ((alone,), _) = run(HMC(epochs=60), seed=12)
        assert folded[2].leapfrog == alone.leapfrog
        torch.testing.assert_close(folded[2].draws[0], alone.draws[0], rtol=1e-9, atol=1e-9)

    def test_a_flat_likelihood_moves_a_quarter_period_at_once(self):
        ((island,), _) = run(HMC(steps=4), target=flat_target(), particles=3)
        assert island.sampling_acceptance > 0.9


class TestStepsOfOneEvaluation:
    @pytest.mark.parametrize("epochs", [2, 7, 30])
    @pytest.mark.parametrize("sampler", [MALA, PCN])
    def test_a_budget_counts_what_the_sampler_asks_for(self, sampler, epochs):
        ((island,), target) = run(sampler(epochs=epochs))
        spent = [island.epochs, island.forward_epochs]
        assert spent == ([0, epochs] if sampler is PCN else [epochs, 0])
        counted = [target.evaluations.gradient, target.evaluations.forward]
        assert counted == [5 * each for each in spent]

    @pytest.mark.parametrize("sampler", [MALA, PCN, GHMC])
    def test_steps_come_after_the_first_evaluation(self, sampler):
        ((island,), _) = run(sampler(steps=9, step_size=0.1))
        assert island.steps == 9
        assert island.spent == 10

    @pytest.mark.parametrize("sampler", [MALA, PCN, GHMC])
    def test_without_steps_or_epochs_there_is_a_budget_of_160(self, sampler):
        ((island,), _) = run(sampler())
        assert island.spent == DEFAULT_EPOCHS == 160

    @pytest.mark.parametrize("sampler", [MALA, PCN])
    def test_as_a_move_of_smc_they_take_no_budget(self, sampler):
        for budget in ({"steps": 5}, {"epochs": 5}):
            with pytest.raises(BadInput, match="`mutations` says how many steps there are"):
                SMC(move=sampler(**budget))

    @pytest.mark.parametrize("sampler", [MALA, PCN, GHMC])
    def test_acceptance_arrives_in_the_band(self, sampler):
        # The mean over 60 steps of 100 chains has an error under 0.01; the rule steers to 0.1.
        ((island,), _) = run(sampler(steps=120), particles=100)
        low, high = sampler().acceptance_band
        assert low - 0.1 < island.sampling_acceptance < high + 0.1

    def test_the_walk_never_steps_further_than_one(self):
        ((island,), _) = run(PCN(steps=40), target=flat_target())
        assert island.step_size == 1.0
        ((island,), _) = run(PCN(steps=40, step_size=0.9), target=flat_target())
        assert island.step_size == 1.0

    @pytest.mark.parametrize("sampler", [MALA, PCN])
    def test_draws_of_a_budget(self, sampler):
        ((island,), _) = run(sampler(epochs=41, step_size=0.1, draws=5, thinning=2))
        ((last,), _) = run(sampler(epochs=41, step_size=0.1))
        assert len(island.draws) == 5
        assert torch.equal(island.draws[-1], last.draws[0])

    def test_draws_fit_in_what_a_search_for_a_step_size_may_leave(self):
        # 12 probes at most, so that 28 of 40 steps are sure.
        assert len(run(MALA(epochs=41, warmup=0.0, draws=28))[0][0].draws) == 28
        with pytest.raises(BadInput, match="fits in the 28 steps after warm-up"):
            MALA(epochs=41, warmup=0.0, draws=29)

    def test_an_island_without_gradients_that_starts_non_finite_fails_alone(self):
        target = AnalyticTarget(lambda z: torch.where(z[:, 0] > 50, torch.inf, -(z[:, 0] ** 2)))
        start = torch.zeros(10, 2, dtype=torch.float64)
        start[7, 0] = 100.0
        islands, _ = run(PCN(steps=4), islands=2, target=target, start=start)
        assert [island.outcome for island in islands] == ["completed", "failed"]
