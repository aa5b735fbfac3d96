"""The loop: exact results, costs, folding, outcomes and what a run tells of itself."""

import math
from dataclasses import replace

import pytest
import torch
from targets import AnalyticTarget, island_noise, prior_draws, run_smc, skewed_log_likelihood

from sbmc.samplers import HMC, MALA, PCN, SMC
from sbmc.samplers.smc import driver
from sbmc.samplers.smc.diagnostics import SMCRun, describe_collapse, spread

MOVES = [HMC(leapfrog=1), HMC(), MALA(), PCN()]
MODES = {
    "adaptive": {},
    "schedule": {"temperatures": (0.01, 0.3, 1.0)},
    "frozen": {"temperatures": (0.01, 0.3, 1.0), "step_sizes": (0.5, 0.4, 0.3)},
    "threshold": {"resample_below": 0.3, "temperatures": (0.01, 0.3, 1.0)},
    "waste-free": {"waste_free": True, "temperatures": (0.01, 0.3, 1.0)},
    "eta": {"eta": 0.2, "temperatures": (0.01, 0.3, 1.0)},
    "multinomial": {"resampling": "multinomial", "temperatures": (0.01, 0.3, 1.0)},
    "residual": {"resampling": "residual"},
    "stratified": {"resampling": "stratified"},
}
STEEP = SMC(mutations=2, move=HMC(leapfrog=1, step_size=0.2))


def steep() -> AnalyticTarget:
    return AnalyticTarget(lambda z: 20 * skewed_log_likelihood(z))


def constant(value: float) -> AnalyticTarget:
    return AnalyticTarget(lambda z: value + 0.0 * z.sum(-1))


class TestConstantLikelihood:
    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("move", MOVES, ids=["leapfrog", "hmc", "mala", "pcn"])
    @pytest.mark.parametrize("value", [-1234.5, 3.25])
    def test_its_value_is_the_evidence(self, mode, move, value):
        settings = SMC(mutations=3, move=move, **MODES[mode])
        for run in run_smc(settings, constant(value), 7, islands=2, dim=2):
            assert run.outcome == "completed"
            assert run.log_evidence == pytest.approx(value, abs=1e-9)
            assert run.temperatures[-1]["temperature"] == 1.0
            assert run.log_weights.exp().sum() == pytest.approx(1, abs=1e-12)

    def test_one_temperature_is_enough_and_nothing_is_lost(self):
        (run,) = run_smc(SMC(mutations=3), constant(-5.0), 7)
        (only,) = run.temperatures
        assert (only["temperature"], only["distinct"], only["roots"]) == (1.0, 7, 7)
        assert only["ess"] == pytest.approx(7)

    def test_a_sum_in_place_of_a_mean_is_caught(self, monkeypatch):
        def wrong(particles, islands):
            state = first_state(particles, islands)
            return state._replace(log_weights=torch.zeros_like(state.log_weights))

        first_state = driver.first_state
        monkeypatch.setattr(driver, "first_state", wrong)
        (run,) = run_smc(SMC(mutations=3), constant(-5.0), 7)
        assert run.log_evidence == pytest.approx(-5 + math.log(7))


class TestCost:
    @pytest.mark.parametrize("particles", [4, 9])
    def test_a_change_of_temperature_costs_no_evaluation(self, particles):
        target = steep()
        settings = SMC(mutations=5, move=HMC(leapfrog=1, step_size=0.2))
        (run,) = run_smc(settings, target, particles, dim=2)
        assert run.steps > 3
        assert run.epochs == 1 + 5 * run.steps
        assert target.evaluations.gradient == particles * (1 + 5 * run.steps)
        assert target.evaluations.forward == run.forward_epochs == 0

    def test_leapfrog_steps_are_counted(self):
        target = steep()
        settings = SMC(mutations=2, move=HMC(leapfrog=3, step_size=0.1), temperatures=(0.1, 1.0))
        (run,) = run_smc(settings, target, 5)
        assert run.epochs == 1 + 2 * 2 * 3
        assert target.evaluations.gradient == 5 * run.epochs

    def test_a_trajectory_is_paid_for_by_its_length(self):
        target = steep()
        runs = run_smc(SMC(mutations=2, move=HMC(step_size=0.1)), target, 5, islands=3)
        assert target.evaluations.gradient == 5 * sum(run.epochs for run in runs)

    def test_the_walk_costs_forward_evaluations_alone(self):
        target = steep()
        (run,) = run_smc(SMC(mutations=4, move=PCN(step_size=0.3)), target, 5)
        assert (run.epochs, run.forward_epochs) == (0, 1 + 4 * run.steps)
        assert target.evaluations.forward == 5 * run.forward_epochs
        assert target.evaluations.gradient == 0


class TestFolding:
    @pytest.mark.parametrize(
        "changes",
        [
            {},
            {"move": HMC()},
            {"move": MALA()},
            {"move": PCN(), "mutations": 8},
            {"resample_below": 0.4},
            {"waste_free": True},
            {"eta": 0.3, "mutations": 6},
            {"resampling": "residual"},
        ],
        ids=["default", "hmc", "mala", "pcn", "threshold", "waste-free", "eta", "residual"],
    )
    def test_an_island_in_a_batch_is_the_island_alone(self, changes):
        settings = SMC(**{"mutations": 3, "ess": 0.8, **changes})
        together = run_smc(settings, steep(), 6, islands=5, seed=30, dim=2)
        for i, folded in enumerate(together):
            (alone,) = run_smc(settings, steep(), 6, seed=30 + i, dim=2)
            assert folded.steps == alone.steps
            assert folded.epochs == alone.epochs
            assert folded.log_evidence == pytest.approx(alone.log_evidence, rel=1e-9)
            torch.testing.assert_close(folded.draws[0], alone.draws[0], rtol=1e-7, atol=1e-9)
            torch.testing.assert_close(folded.log_weights, alone.log_weights, rtol=1e-7, atol=1e-9)
            for ours, theirs in zip(folded.temperatures, alone.temperatures, strict=True):
                assert ours == pytest.approx(theirs, rel=1e-7)
        assert len({run.steps for run in together}) > 1

    def test_one_call_serves_all_islands_that_are_under_way(self):
        target = steep()
        runs = run_smc(STEEP, target, 4, islands=6, dim=2)
        numbers = [run.steps for run in runs]
        assert len(set(numbers)) > 1
        expected = [6 * 4]
        for step in range(max(numbers)):
            under_way = sum(number > step for number in numbers)
            expected += [under_way * 4] * 2
        assert target.calls == expected
        # One after the other would take so many calls instead.
        assert len(target.calls) < sum(1 + 2 * number for number in numbers) / 3

    def test_the_search_for_step_sizes_is_folded_too(self):
        target = steep()
        runs = run_smc(SMC(mutations=2), target, 4, islands=6, dim=2)
        spent = sum(run.epochs for run in runs)
        assert sum(target.calls) == 4 * spent
        assert len(target.calls) < spent / 3

    def test_a_finished_island_is_left_alone(self):
        rng = island_noise(4, islands=6)
        seen: dict[int, tuple] = {}

        def report(runs):
            for i, run in enumerate(runs):
                if run.outcome == "completed" and i not in seen:
                    noise = rng.generators[i].get_state()
                    seen[i] = (run.draws[0].clone(), noise, run.epochs, run.log_evidence, run.steps)

        runs = STEEP.run(steep(), rng, prior_draws(rng, STEEP, 2), report)
        assert len({run.steps for run in runs}) > 1
        for i, run in enumerate(runs):
            draws, noise, *accounts = seen[i]
            assert torch.equal(run.draws[0], draws)
            assert torch.equal(rng.generators[i].get_state(), noise)
            assert accounts == [run.epochs, run.log_evidence, run.steps]

    def test_reports_come_after_every_temperature(self):
        rng = island_noise(4, islands=3)
        heats = []
        STEEP.run(
            steep(),
            rng,
            prior_draws(rng, STEEP, 2),
            lambda runs: heats.append([run.temperature for run in runs]),
        )
        assert all(0 < heat <= 1 for heat in heats[0])
        assert heats[-1] == [1.0, 1.0, 1.0]


def bad_start(value: float):
    """Three islands of four, a particle of the second of which is where the target gives way."""
    rng = island_noise(4, seed=20, islands=3)
    start = prior_draws(rng, STEEP, 2)
    start[6, 0] = 100.0

    def log_likelihood(z):
        return torch.where(z[:, 0] > 50, value, 20 * skewed_log_likelihood(z.clamp(max=50)))

    return STEEP.run(AnalyticTarget(log_likelihood), rng, start)


class TestOutcomes:
    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_a_population_that_is_not_finite(self, value):
        runs = bad_start(value)
        assert [run.outcome for run in runs] == ["completed", "non-finite", "completed"]
        assert runs[1].message == "log likelihood not finite for 1 of 4 particles at temperature 0"
        assert runs[1].draws == []
        assert runs[1].log_weights is None
        assert (runs[0].message, runs[0].non_finite) == ("", 0)

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_a_bad_island_does_not_disturb_its_fold(self, value):
        runs = bad_start(value)
        for i in (0, 2):
            (alone,) = run_smc(STEEP, steep(), 4, seed=20 + i, dim=2)
            torch.testing.assert_close(runs[i].draws[0], alone.draws[0], rtol=1e-7, atol=1e-9)
            assert runs[i].log_evidence == pytest.approx(alone.log_evidence, rel=1e-9)

    def test_a_likelihood_of_zero_is_a_weight_of_zero(self):
        runs = bad_start(-math.inf)
        assert [run.outcome for run in runs] == ["completed"] * 3
        assert runs[1].draws[0].max() < 50
        assert math.isfinite(runs[1].log_evidence)

    @pytest.mark.parametrize("mode", ["adaptive", "schedule", "threshold", "waste-free"])
    @pytest.mark.parametrize("move", MOVES, ids=["leapfrog", "hmc", "mala", "pcn"])
    def test_half_a_prior_of_zero_likelihood(self, mode, move):
        """The evidence is the fraction that is alive, 1/2.

        Log Z of 400 draws has a standard error of 0.05: a false alarm comes once in 3 million.
        """
        target = AnalyticTarget(lambda z: torch.where(z[:, 0] < 0, 0.0, -torch.inf) + 0.0 * z[:, 0])
        settings = SMC(mutations=2, move=move, **MODES[mode])
        (run,) = run_smc(settings, target, 200 if mode == "waste-free" else 400)
        assert run.outcome == "completed"
        assert run.log_evidence == pytest.approx(math.log(0.5), abs=0.25)
        assert (run.draws[0][run.log_weights.exp() > 0] < 0).all()

    def test_particles_of_zero_likelihood_have_no_say_in_the_step_size(self):
        # Nine in ten of the prior's draws are dead; the others are free to move.
        target = AnalyticTarget(
            lambda z: torch.where(z[:, 0] < -1.28, 0.0, -torch.inf) + 0.0 * z[:, 0]
        )
        settings = SMC(mutations=1, temperatures=(1.0,), move=HMC(leapfrog=1))
        (run,) = run_smc(settings, target, 300)
        assert run.temperatures[0]["step_size"] > 0.1

    def test_zero_for_all(self):
        target = AnalyticTarget(lambda z: -torch.inf + 0.0 * z.sum(-1))
        (run,) = run_smc(STEEP, target, 4)
        assert run.outcome == "non-finite"
        assert run.message == "log likelihood not finite for all 4 particles at temperature 0"

    def test_a_stuck_schedule(self):
        target = AnalyticTarget(lambda z: -1e90 * z.square().sum(-1))
        (run,) = run_smc(SMC(mutations=2, move=PCN(step_size=0.5)), target, 6)
        assert run.outcome == "stuck"
        assert run.message == (
            "no temperature above 0 keeps the effective sample size: "
            "the likelihoods of its particles are too far apart"
        )
        assert run.temperatures == run.draws == []

    def test_a_step_limit(self):
        unlimited = replace(STEEP, ess=0.8)
        (whole,) = run_smc(unlimited, steep(), 6, dim=2)
        assert whole.steps > 4
        target = steep()
        (run,) = run_smc(replace(unlimited, most_temperatures=3), target, 6, dim=2)
        assert run.outcome == "step-limit"
        assert run.steps == 3
        assert run.message == f"temperature {run.temperature:.3g} after 3 steps, the limit"
        assert run.temperatures == whole.temperatures[:3]
        assert target.evaluations.gradient == 6 * (1 + 2 * 3)
        # As many as are needed are no fewer than allowed.
        just = replace(unlimited, most_temperatures=whole.steps)
        (enough,) = run_smc(just, steep(), 6, dim=2)
        assert enough.outcome == "completed"

    def test_one_that_is_stuck_does_not_stop_the_others(self):
        rng = island_noise(4, islands=3)
        start = prior_draws(rng, STEEP, 2)
        start[4:8, 1] = torch.tensor([100.0, 101.0, 102.0, 103.0])

        def log_likelihood(z):
            wall = torch.where(z[:, 1] > 50, -1e90 * (z[:, 1] - 100).square(), 0.0)
            return wall + 20 * skewed_log_likelihood(z.clamp(max=50))

        runs = STEEP.run(AnalyticTarget(log_likelihood), rng, start)
        assert [run.outcome for run in runs] == ["completed", "stuck", "completed"]


class TestDiagnostics:
    def test_what_a_temperature_tells(self):
        (run,) = run_smc(SMC(mutations=3), steep(), 12, dim=2)
        names = {"temperature", "ess", "distinct", "roots", "acceptance", "mutations", "step_size"}
        roots = 12
        for each in run.temperatures:
            assert set(each) == names
            assert 1 <= each["roots"] <= min(roots, each["distinct"])
            assert 1 <= each["ess"] <= 12
            assert 0 <= each["acceptance"] <= 1
            assert each["mutations"] == 3
            roots = each["roots"]
        assert run.temperature == 1.0
        assert run.acceptance == [each["acceptance"] for each in run.temperatures]
        assert run.sampling_acceptance == run.acceptance[-1]

    def test_a_threshold_that_is_the_wanted_size_resamples_every_time(self):
        settings = SMC(mutations=3, ess=0.5, resample_below=0.5)
        for run in run_smc(settings, steep(), 12, islands=5, dim=2):
            assert run.steps > 2
            assert all(each["distinct"] < 12 for each in run.temperatures[:-1])
        # And one far below it, only every other time.
        settings = SMC(mutations=3, ess=0.7, resample_below=0.5)
        for run in run_smc(settings, steep(), 12, islands=5, dim=2):
            kept = [each["distinct"] == 12 for each in run.temperatures[:-1]]
            assert len(kept) >= 2
            assert kept == ([True, False] * len(kept))[: len(kept)]

    def test_before_the_first_temperature(self):
        run = SMCRun()
        assert (run.steps, run.temperature, run.acceptance) == (0, 0.0, [])
        assert math.isnan(run.sampling_acceptance)

    def test_spread_of_independent_particles_is_about_one(self):
        z = torch.randn(50, 400, generator=torch.Generator().manual_seed(0))
        assert spread(z) == pytest.approx(1, abs=0.05)
        assert spread(torch.ones(3, 5)) == 0
        assert spread(z[:1]) == 0

    def test_spread_of_a_narrow_family(self):
        # Around one point of unit norm per direction: a tenth of its variance between them.
        rng = torch.Generator().manual_seed(0)
        centre = torch.randn(1, 4000, generator=rng)
        z = centre + math.sqrt(0.1) * torch.randn(40, 4000, generator=rng)
        assert spread(z) == pytest.approx(0.1 / 1.1, rel=0.1)

    def test_copies_are_a_collapse(self):
        z = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
        words = describe_collapse(z[[0, 0, 1, 1, 2, 2]], torch.arange(6))
        assert words == "only 3 of its 6 particles differ, the moves having been rejected"
        assert describe_collapse(z[[0, 0, 1, 2]], torch.arange(4)) == ""

    def test_one_family_close_together_is_a_collapse(self):
        rng = torch.Generator().manual_seed(0)
        z = torch.randn(1, 50, generator=rng) + 0.1 * torch.randn(8, 50, generator=rng)
        one, two = torch.zeros(8), torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
        words = describe_collapse(z, one)
        assert words.startswith("its 8 particles descend from one first draw and have not moved")
        assert describe_collapse(z, two) == ""
        # One family whose members have gone their ways is none.
        apart = torch.randn(8, 50, generator=rng)
        assert describe_collapse(apart, one) == ""

    def test_one_particle_cannot_collapse(self):
        assert describe_collapse(torch.zeros(1, 5), torch.zeros(1)) == ""

    def test_a_run_says_that_it_has_collapsed(self):
        still = SMC(mutations=1, temperatures=(1.0,), move=HMC(leapfrog=1, step_size=40.0))
        (stuck,) = run_smc(still, steep(), 8, dim=2)
        assert "of its 8 particles differ" in stuck.collapsed
        healthy = SMC(mutations=5, temperatures=(0.5, 1.0), move=HMC())
        (run,) = run_smc(healthy, AnalyticTarget(lambda z: z[:, 0]), 8, dim=2)
        assert run.collapsed == ""
