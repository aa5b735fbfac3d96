"""Waste-free SMC: every state of the moves is a particle."""

import pytest
import torch
from targets import AnalyticTarget, island_noise, run_smc, skewed_log_likelihood

from sbmc.samplers import HMC, MALA, PCN, SMC, mala
from sbmc.samplers.smc import driver
from sbmc.samplers.smc.mutation import Mutation
from sbmc.samplers.smc.waste_free import WasteFreeMutation


def skewed() -> AnalyticTarget:
    return AnalyticTarget(skewed_log_likelihood)


class TestMutation:
    def make(self, islands=2, particles=3, moves=4):
        target = skewed()
        rng = island_noise(particles, islands=islands)
        state = mala.init(rng.normal(2, torch.float64), target)
        mutation = Mutation(MALA(), target, [0.5] * islands, [moves] * islands)
        heat = torch.full((islands,), 0.7, dtype=torch.float64)
        return rng, state, mutation, heat

    def test_a_chain_begins_at_its_ancestor_and_its_states_stand_side_by_side(self):
        rng, state, mutation, heat = self.make()
        population, info, copies = WasteFreeMutation(mutation)(rng, state, heat)
        assert copies == 5
        assert info.mutations == info.evaluations == [4, 4]
        chains = population.position.view(6, 5, 2)
        assert torch.equal(chains[:, 0], state.position)
        # The last state of a chain is where the same moves by themselves end.
        rng, state, mutation, heat = self.make()
        ends, _, _ = mutation(rng, state, heat)
        assert torch.equal(chains[:, -1], ends.position)
        assert not torch.equal(chains[:, 0], chains[:, -1])

    def test_likelihoods_and_gradients_belong_to_their_positions(self):
        rng, state, mutation, heat = self.make()
        population, _, _ = WasteFreeMutation(mutation)(rng, state, heat)
        value, gradient = skewed()(population.position)
        torch.testing.assert_close(population.log_likelihood, value)
        torch.testing.assert_close(population.gradient, gradient)

    def test_states_are_kept_and_not_overwritten(self):
        rng, state, mutation, heat = self.make()
        population, _, _ = WasteFreeMutation(mutation)(rng, state, heat)
        chains = population.position.view(6, 5, 2)
        assert all(len(chain.unique(dim=0)) > 1 for chain in chains)


class TestRun:
    @pytest.mark.parametrize("move", [HMC(leapfrog=1, step_size=0.4), MALA(step_size=0.4)])
    def test_evaluations_and_population(self, move):
        target = AnalyticTarget(lambda z: 10 * skewed_log_likelihood(z))
        settings = SMC(mutations=6, waste_free=True, move=move)
        runs = run_smc(settings, target, particles=5, islands=2, dim=2)
        assert settings.population(5) == 30
        for run in runs:
            assert run.steps > 2
            # M draws of the prior for each chain, and M − 1 moves at each of J temperatures.
            assert run.epochs == 6 + 5 * run.steps
            assert run.draws[0].shape == (30, 2)
            weights = run.log_weights.exp()
            torch.testing.assert_close(weights, torch.full((30,), 1 / 30).double())
            assert all(each["mutations"] == 5 for each in run.temperatures)
            assert all(each["distinct"] <= 5 for each in run.temperatures)
            # The size that is wanted is a fraction of the whole population.
            sizes = [each["ess"] for each in run.temperatures[:-1]]
            assert sizes == pytest.approx([15] * len(sizes), rel=1e-6)
        assert target.evaluations.gradient == 5 * sum(run.epochs for run in runs)

    def test_the_ancestors_are_among_the_final_population(self, monkeypatch):
        selected = []

        class Watched(WasteFreeMutation):
            def __call__(self, rng, state, temperature):
                selected.append(state.position.clone())
                return super().__call__(rng, state, temperature)

        monkeypatch.setattr(driver, "WasteFreeMutation", Watched)
        (run,) = run_smc(SMC(mutations=4, waste_free=True), skewed(), particles=3, dim=2)
        chains = run.draws[0].view(3, 4, 2)
        assert torch.equal(chains[:, 0], selected[-1])
        assert len(selected) == run.steps

    def test_a_search_for_a_step_size_is_paid_for_by_the_chains_that_make_it(self):
        target = skewed()
        (run,) = run_smc(SMC(mutations=4, waste_free=True), target, particles=3, dim=2)
        assert 4 + 3 * run.steps < run.epochs <= 4 + 3 * run.steps + 12
        assert target.evaluations.gradient == 3 * run.epochs

    def test_the_walk_counts_forward_evaluations(self):
        target = skewed()
        settings = SMC(mutations=4, waste_free=True, move=PCN(step_size=0.5))
        (run,) = run_smc(settings, target, particles=3)
        assert (run.epochs, run.forward_epochs) == (0, 4 + 3 * run.steps)
        assert target.evaluations.forward == 3 * run.forward_epochs
