"""The self-tuning sampler: what it spends its epochs on, that it is exact, that it recovers."""

from __future__ import annotations

import logging
import math
import warnings
from functools import partial

import pytest
import torch
from checks import mean_and_covariance_fit
from interrupting import Case, Interrupting
from targets import AnalyticTarget, conjugate_regression, flat_target, island_noise
from torch import nn

import sbmc
from sbmc import AutoHMC
from sbmc.samplers import (
    auto_batches,
    auto_hmc,
    auto_phases,
    hmc_kernel,
    particle_steps,
    thermostat,
)
from sbmc.samplers.auto_phases import correction, leapfrog_steps, make_exact_moves
from sbmc.samplers.auto_schedule import Schedule, schedule_of
from sbmc.samplers.auto_state import AutoRun, AutoState, drift_in_words, virial_in_words
from sbmc.samplers.particle_steps import shortened

S = 0.25
# So many examples are nine batches, so that 40 epochs begin on mini-batches.
MANY = 576


class TestSchedule:
    @pytest.mark.parametrize("examples", [1, 100, 447, 449, 10_000])
    @pytest.mark.parametrize("epochs", [2, 3, 23, 24, 63, 64, 1000])
    def test_spends_the_whole_budget(self, examples, epochs):
        schedule = schedule_of(examples, epochs)
        assert schedule.epochs == epochs
        assert min(schedule[:3]) >= 0
        # Dynamics on all data begin with an evaluation.
        assert (schedule.on_all_data > 0) == (schedule.exact > 0)
        assert schedule.dynamics <= schedule.tuned_until <= max(schedule.dynamics, epochs - 1)

    def test_few_data_or_many_epochs_are_taken_whole(self):
        assert schedule_of(448, 10).on_batches == 0
        assert schedule_of(449, 10).on_batches == 10
        assert schedule_of(10**6, 64).on_batches == 0

    def test_exact_moves_follow_where_they_are_affordable(self):
        assert schedule_of(10_000, 23).exact == 0
        assert schedule_of(10_000, 24).exact > 0

    @pytest.mark.parametrize(
        ("examples", "epochs", "words"),
        [(12, 20, "fewer than 8 batches"), (MANY, 64, "from 64"), (MANY, 40, "then exact")],
    )
    def test_the_log_says_why(self, examples, epochs, words, caplog):
        target = conjugate_regression(examples=examples).network_target(S)
        with caplog.at_level(logging.INFO, logger="sbmc"):
            AutoHMC(epochs=epochs).run(target, island_noise(2), torch.zeros(2, 3).double())
        (message,) = [m for m in caplog.messages if m.startswith("AutoHMC")]
        assert words in message
        assert f"{examples} examples, {epochs} epochs" in message


class TestExactMoves:
    @pytest.mark.parametrize("step_size", [1e-4, 0.01, 0.3, 2.0])
    @pytest.mark.parametrize("epochs", [10, 57, 300])
    def test_leapfrog_steps_exhaust_the_budget(self, step_size, epochs):
        made, tuned, moves = 5, 5 + epochs // 3, 0
        while made < epochs + 5:
            uniform = 0.37 * moves % 1
            count = leapfrog_steps(step_size, uniform, made, tuned, epochs + 5)
            assert count >= 1
            made, moves = made + count, moves + 1
        assert made == epochs + 5
        assert moves >= 3

    def test_trajectories_are_a_quarter_period_where_there_is_room(self):
        lengths = [0.05 * leapfrog_steps(0.05, u, 100, 100, 4000) for u in (0.0, 0.5, 1.0)]
        assert lengths == pytest.approx([f * math.pi / 2 for f in (0.7, 1.0, 1.3)], abs=0.03)

    @pytest.mark.parametrize("spread", [0.3, 0.6, 1.5])
    def test_the_correction_follows_from_the_acceptance_of_normal_energy_errors(self, spread):
        """With ΔH ~ N(σ²/2, σ²), from 10⁶ draws: the wanted σ is that of an acceptance of 0.8."""
        errors = torch.randn(10**6, generator=torch.Generator().manual_seed(0)).double()

        def acceptance(σ):
            return float((-(σ * errors + σ**2 / 2)).exp().clamp(max=1).mean())

        factor = correction(acceptance(spread))
        if 0.5 < factor < 1.3:
            assert acceptance(spread * factor**2) == pytest.approx(0.8, abs=0.01)
        else:
            assert factor == (1.3 if spread < 0.5 else 0.5)

    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_are_accepted_as_often_as_is_wanted_where_the_prior_is_all_there_is(self, seed):
        """Energy errors cancel over half its period: moves that tune must not be as long."""
        start = torch.randn(10, 4000, generator=torch.Generator().manual_seed(seed))
        (run,) = AutoHMC(epochs=160).run(flat_target(), island_noise(10, seed), start)
        assert run.step_size > 0.1
        assert 0.6 < run.sampling_acceptance < 0.95

    def test_step_sizes_are_frozen_before_they_count(self, monkeypatch):
        """Each particle then has two: its own and, in every third move, a third of it."""
        sizes, counts = [], []
        step = hmc_kernel.step

        def noted(rng, state, target, *, step_size, leapfrog):
            sizes.append(step_size.clone())
            counts.append(int(leapfrog[0]))
            return step(rng, state, target, step_size=step_size, leapfrog=leapfrog)

        monkeypatch.setattr(hmc_kernel, "step", noted)
        target = conjugate_regression().network_target(S)
        (run,) = AutoHMC(epochs=120).run(target, island_noise(8), torch.zeros(8, 3).double())
        assert run.tuning_moves >= 1
        assert len({float(each[0]) for each in sizes[: run.tuning_moves + 1]}) > 1
        frozen = sizes[run.tuning_moves :]
        assert run.sampling_steps == len(frozen) >= 4
        own = run.step_size * run.factors
        for move, each in enumerate(frozen):
            single = counts[run.tuning_moves + move] == 1
            assert torch.equal(each, own if single else own * shortened(8, move))

    def test_moves_of_a_single_step_are_not_shortened(self, monkeypatch):
        """Very short runs have no others, and would get nowhere."""
        sizes = []
        step = hmc_kernel.step

        def noted(*arguments, step_size, leapfrog):
            sizes.append(step_size / step_size.max() if int(leapfrog[0]) == 1 else None)
            return step(*arguments, step_size=step_size, leapfrog=leapfrog)

        monkeypatch.setattr(hmc_kernel, "step", noted)
        target = conjugate_regression().network_target(S)
        (run,) = AutoHMC(epochs=8).run(target, island_noise(8), torch.zeros(8, 3).double())
        assert run.leapfrog == [1, 1, 1, 1]
        for each in sizes[1:]:
            assert torch.equal(each, run.factors / run.factors.max())

    def test_a_particle_where_the_posterior_is_narrow_has_a_small_step_of_its_own(self):
        """Two Gaussians far apart, one a tenth as wide: at the island's step size it is stuck."""
        target = AnalyticTarget(two_wells)
        start = torch.full((8, 20), -5.0, dtype=torch.float64)
        start[6:] = 5.0
        (run,) = AutoHMC(epochs=400).run(target, island_noise(8), start)
        assert (run.draws[0].mean(-1).sign() == start[:, 0].sign()).all()
        wide, narrow = run.factors[:6], run.factors[6:]
        assert narrow.max() < 0.3 * wide.min()
        assert run.particle_acceptance.min() > 0.5

    def test_a_particle_that_is_stuck_at_its_own_step_leaves_by_a_short_one(self, monkeypatch):
        """With equal steps the narrow well is unstable; every third move is short enough."""
        monkeypatch.setattr(particle_steps, "SHORT_STEP", 0.005)
        here = torch.full((8, 20), 5.0, dtype=torch.float64)
        target = AnalyticTarget(two_wells)
        state = AutoState.at(here, torch.zeros_like(here))
        for field, value in zip(state[2:4], target(here), strict=True):
            field.copy_(value)
        run, rng = AutoRun(0.3, 8), island_noise(8)
        for _ in range(3):
            make_exact_moves(rng, state, [run], target, tuned_until=0, ends=[100])
        # Short moves do not count: the verdict sees that full ones are rejected.
        assert run.particle_acceptance.tolist() == pytest.approx([0.0] * 8, abs=0.01)
        assert run.full_moves.tolist() == [2.0] * 8
        assert (state.position != here).all()


def two_wells(z):
    """With the prior, N(−5, 1) and N(5, 0.1²) in every coordinate, whose masses do not matter."""
    wide = -(z + 5).square().sum(-1) / 2
    narrow = -(z - 5).square().sum(-1) / (2 * 0.1**2)
    return torch.logaddexp(wide, narrow) + z.square().sum(-1) / 2


def at_the_mode(target, problem, particles):
    """Where particles begin at an anchor that was trained to the end, and a little noise."""
    mode = target.prior.to_whitened(problem.posterior(S)[0])
    noise = torch.randn(particles, 3, generator=torch.Generator().manual_seed(8))
    return mode + 0.01 * noise.double()


def regression_fits(epochs, examples, particles=400):
    """Whether final states have the mean and the covariance of the posterior; at a rate of 1e-4."""
    problem = conjugate_regression(examples=examples)
    target = problem.network_target(S)
    rng = island_noise(particles, seed=1)
    (run,) = AutoHMC(epochs=epochs).run(target, rng, at_the_mode(target, problem, particles))
    parameters = target.prior.to_parameters(run.draws[0])
    return mean_and_covariance_fit(parameters, *problem.posterior(S))


def without_exact_moves(examples, epochs, streamed):
    return Schedule(epochs, 0, 0, "a planted bug")


class TestExactness:
    """Mini-batches first; `test_posterior_of_every_sampler` has the runs on all data."""

    @pytest.fixture
    def _hot(self, monkeypatch):
        """Dynamics that may be as hot as they come, and are not annealed."""
        monkeypatch.setattr(thermostat, "TOLERANCE_ON_AVERAGE", 2.0)
        monkeypatch.setattr(auto_batches, "LEAST_ANNEALING", 1.0)

    @pytest.mark.usefixtures("_hot")
    def test_exact_moves_undo_what_mini_batches_have_heated(self):
        assert regression_fits(60, MANY)

    @pytest.mark.usefixtures("_hot")
    def test_without_them_the_heat_shows(self, monkeypatch):
        monkeypatch.setattr(auto_hmc, "schedule_of", without_exact_moves)
        assert not regression_fits(60, MANY)

    def test_without_them_a_thermostat_that_anneals_is_good_enough_here(self, monkeypatch):
        monkeypatch.setattr(auto_hmc, "schedule_of", without_exact_moves)
        assert regression_fits(60, MANY)

    def test_a_prior_that_is_left_out_of_the_energy_shows(self, monkeypatch):
        def forget_the_prior(state, momentum, temperature):
            return momentum.double().square().sum(-1) / 2 - temperature * state.log_likelihood

        assert regression_fits(100, 12)
        monkeypatch.setattr(hmc_kernel, "hamiltonian", forget_the_prior)
        assert not regression_fits(100, 12)

    def test_moves_that_are_always_accepted_show(self, monkeypatch):
        """Exact moves without their test, at step sizes that it would reject half of."""
        monkeypatch.setattr(auto_phases, "WANTED_ACCEPTANCE", 0.4)
        assert regression_fits(200, 12)
        test = hmc_kernel.metropolis_test

        def accept_all(log_ratio, uniform):
            return test(log_ratio, uniform)._replace(accepted=torch.isfinite(log_ratio))

        monkeypatch.setattr(hmc_kernel, "metropolis_test", accept_all)
        assert not regression_fits(200, 12)


def network(examples, seed=0):
    """A small classifier that was trained a little, and its data."""
    rng = torch.Generator().manual_seed(seed)
    inputs = torch.randn(examples, 4, generator=rng)
    labels = (inputs[:, 0] * inputs[:, 1] > 0).long()
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model.apply(lambda part: getattr(part, "reset_parameters", lambda: None)())
        optimiser = torch.optim.Adam(model.parameters(), 0.02)
        for _ in range(60):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimiser.step()
    return model, (inputs, labels)


def fit(model, data, epochs, **options):
    """A posterior, what was warned of it, and its mean log likelihood with a standard error."""
    settings = {"particles": 20, "progress": False, "s": 1.0, **options}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = sbmc.fit(model, data, sampler=AutoHMC(**epochs), **settings)
    target = sbmc.build_target(
        model, data, s=1.0, prior_variance=options.get("prior_variance", 1.0)
    )
    z = target.prior.to_whitened(posterior.positions[0])
    values = target.log_likelihood(z)
    warned = any(issubclass(each.category, sbmc.HealthWarning) for each in caught)
    return posterior, warned, float(values.mean()), float(values.std()) / math.sqrt(len(values))


class TestAnywhere:
    """Any prior and any first step size ends healthy, and then right; or warned of."""

    @pytest.mark.parametrize("variance", [1e-3, 1.0, 1e2])
    def test_on_all_data(self, variance):
        model, data = network(200)
        _, _, expected, error = fit(model, data, {"epochs": 2000}, prior_variance=variance)
        for size in (1e-5, 10.0):
            settings = {"epochs": 200, "step_size": size}
            posterior, warned, value, other = fit(model, data, settings, prior_variance=variance)
            assert warned is (posterior.health.ok is False)
            if posterior.health.ok:
                assert abs(value - expected) < 5 * math.hypot(error, other)
            if variance == 1.0:
                assert posterior.health.ok, str(posterior.health)

    @pytest.mark.parametrize("variance", [1e-3, 1e2])
    @pytest.mark.parametrize("size", [1e-5, 10.0])
    def test_on_mini_batches(self, variance, size):
        model, data = network(MANY)
        settings = {"epochs": 40, "step_size": size}
        posterior, warned, _, _ = fit(model, data, settings, prior_variance=variance)
        assert warned is (posterior.health.ok is False)
        assert torch.isfinite(posterior.positions).all()
        # The first step size, which was a million times another, is all but forgotten.
        usual, *_ = fit(model, data, {"epochs": 40}, prior_variance=variance)
        ratio = posterior.islands[0].step_size / usual.islands[0].step_size
        assert 0.1 < ratio < 10

    def test_a_particle_that_blows_up_is_put_back_and_counted(self, monkeypatch):
        problem = conjugate_regression(examples=MANY)
        target = problem.network_target(S)
        start = at_the_mode(target, problem, 8)
        settings = AutoHMC(epochs=20)  # mini-batches alone
        (calm,) = settings.run(target, island_noise(8), start)
        assert calm.restarts == 0
        blown_up, steps = auto_batches.too_fast, iter(range(1000))

        def third_blows_up(state, non_finite, reference):
            # In the first of the steps of the second half, which is the ninetieth of 180.
            non_finite[2] |= next(steps) == 90
            return blown_up(state, non_finite, reference)

        monkeypatch.setattr(auto_batches, "too_fast", third_blows_up)
        (run,) = settings.run(target, island_noise(8), start)
        assert run.restarted.tolist() == [k == 2 for k in range(8)]
        assert torch.isfinite(run.draws[0]).all()

    def test_an_island_whose_start_is_not_finite_fails_alone(self):
        target = conjugate_regression().network_target(S)
        start = torch.zeros(6, 3, dtype=torch.float64)
        start[4, 1] = math.nan
        runs = AutoHMC(epochs=10).run(target, island_noise(3, islands=2), start)
        assert [run.outcome for run in runs] == ["completed", "failed"]
        assert runs[1].message == "start not finite for 1 of 3 particles"

    def test_a_start_far_out_is_no_heat(self):
        """From eighty posterior standard deviations, and the step size is not run down."""
        problem = conjugate_regression(examples=MANY)
        target = problem.network_target(S)
        rng = island_noise(20, seed=5)
        mean, covariance = problem.posterior(S)
        width = covariance.diagonal().sqrt() / target.prior.scale
        away = (target.prior.to_whitened(mean) / width).abs().max()
        (run,) = AutoHMC(epochs=23).run(target, rng, torch.zeros(20, 3, dtype=torch.float64))
        left = ((run.draws[0] - target.prior.to_whitened(mean)) / width).abs().max()
        assert away > 70
        assert left < 7
        assert run.step_size > 1e-3


class TestVerdict:
    def test_a_drift_of_the_log_likelihood_is_told(self):
        rng = torch.Generator().manual_seed(0)
        noise = torch.randn(20, 10, generator=rng).double()
        assert drift_in_words(noise) == ""
        rising = noise + 0.2 * torch.arange(20).unsqueeze(1)
        assert drift_in_words(rising).startswith("the log likelihood rose by 1.8")
        assert "fell" in drift_in_words(-rising)
        # Where particles differ by far more than they drift, they only seem to.
        apart = rising + 100 * torch.randn(10, generator=rng).double()
        assert drift_in_words(apart) == ""

    def test_a_few_moves_or_particles_do_not_tell(self):
        assert drift_in_words(None) == ""
        assert drift_in_words(torch.arange(12.0).view(3, 4)) == ""
        assert drift_in_words(torch.arange(12.0).view(6, 2)) == ""

    def test_a_virial_far_from_one_is_told(self):
        assert virial_in_words(None, 0.1) == virial_in_words(0.9, 0.1) == ""
        assert "0.10 per coordinate" in virial_in_words(0.1, 0.01)
        assert virial_in_words(0.1, 0.2) == ""  # in a few coordinates, by chance
        assert "30.00 per coordinate" in virial_in_words(30.0, 0.01)

    def test_a_run_that_is_too_short_is_still_relaxing(self):
        model, data = network(200)
        posterior, warned, _, _ = fit(model, data, {"epochs": 6, "step_size": 1e-3})
        assert warned
        assert any("still relaxing" in reason for reason in posterior.health.reasons)
        assert posterior.health.remedies[0].startswith(
            "Give the chains a longer run: sampler=sbmc.AutoHMC("
        )


def hybrid(settings=None, islands=2, particles=4):
    """Islands that go through all phases, with 24 epochs if nothing else is said."""
    sampler = settings or AutoHMC(epochs=24)

    def run(target, checkpointer):
        rng = island_noise(particles, seed=40, islands=islands)
        rows = [torch.randn(particles, 3, generator=g).double() for g in rng.generators]
        runs = sampler.run(target, rng, torch.cat(rows), checkpointer=checkpointer)
        return [*runs, torch.stack([g.get_state() for g in rng.generators])]

    return Case(lambda: conjugate_regression(examples=MANY).network_target(S), run)


class TestSnapshots:
    def test_all_phases_go_on_with_the_same_bits(self):
        it = hybrid()
        undisturbed, checkpointer = it.through(), Interrupting()
        assert it.through(checkpointer) == undisturbed
        assert {tuple(file) for file in checkpointer.offers} == {("auto",)}
        # On mini-batches, at the first evaluation of all data, on all data, in exact moves.
        for stop in (1, 6, 12, 13, 15, len(checkpointer.offers) - 1):
            assert it.stopped(stop) == undisturbed, stop

    @pytest.mark.parametrize("name", ["state.momentum", "state.healthy", "state.gradient"])
    def test_what_is_forgotten_shows(self, name):
        def change(file, name):
            file["auto"][1][name].add_(1)

        it = hybrid()
        stop = 3 if name != "state.gradient" else 15
        if name == "state.healthy":
            # It decides only where particles are put back, as after a first step size of 10.
            it, stop = hybrid(AutoHMC(epochs=24, step_size=10.0)), 1
        assert it.stopped(stop, change=partial(change, name=name)) != it.through()


def test_an_unused_run_says_nothing():
    run = AutoRun(0.1, 4)
    assert run.particle_acceptance is None
    assert math.isnan(run.sampling_acceptance)
    assert run.relaxing == ""
    assert run.restarts == 0
