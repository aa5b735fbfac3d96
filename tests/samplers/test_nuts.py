import itertools
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
import torch
from checks import averages_fit
from targets import (
    AnalyticTarget,
    conjugate_regression,
    flat_target,
    island_noise,
    skewed_log_likelihood,
    skewed_moments,
)

import sbmc
from sbmc.checks import BadInput
from sbmc.islands.scheduler import run_islands
from sbmc.model.data import Examples
from sbmc.prior.gaussian import AnchoredPrior
from sbmc.samplers import nuts, nuts_chains
from sbmc.samplers.nuts import NUTS
from sbmc.target.target import Evaluation, Target

SHORT = NUTS(warmup_draws=50, draws=20)


def starts(count, dim, seed=3):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(count, dim, generator=rng, dtype=torch.float64)


def sample(target, sampler=SHORT, islands=1, particles=2, dim=3, seed=0):
    rng = island_noise(particles, seed, islands)
    return sampler.run(target, rng, starts(islands * particles, dim))


def chain_means(target, functions, *, chains=12, dim=3, sampler=None):
    """Each chain's averages of some functions of its draws: independent rows, whatever the IACT."""
    sampler = sampler or NUTS(warmup_draws=80, draws=60)
    (run,) = sample(target, sampler, particles=chains, dim=dim)
    return functions(torch.stack(run.draws)).mean(0)


class TestFormula:
    def test_the_density_is_the_tempered_posterior_and_its_gradient(self):
        target = AnalyticTarget(skewed_log_likelihood)
        z = starts(4, 3).requires_grad_()
        value = 0.3 * skewed_log_likelihood(z) - z.square().sum(-1) / 2
        (gradient,) = torch.autograd.grad(value.sum(), z)
        found = nuts.tempered(z.detach(), target(z), 0.3)
        torch.testing.assert_close(found[0], value.detach())
        torch.testing.assert_close(found[1], gradient)

    @pytest.mark.parametrize("where", ["value", "gradient"])
    def test_what_is_not_finite_is_nan_in_its_own_row_alone(self, where):
        value, gradient = torch.zeros(3).double(), torch.zeros(3, 2).double()
        (value if where == "value" else gradient)[1] = -torch.inf
        found, _ = nuts.tempered(torch.zeros(3, 2).double(), Evaluation(value, gradient))
        assert found.isnan().tolist() == [False, True, False]

    def test_single_precision_is_handed_on_in_double(self):
        z = starts(2, 3)
        value, gradient = nuts.tempered(z, Evaluation(torch.zeros(2).double(), torch.ones(2, 3)))
        assert value.dtype == gradient.dtype == torch.float64
        torch.testing.assert_close(gradient, 1 - z)


class TestPosterior:
    def test_low_rank_mass_matrix_leaves_the_skewed_target_invariant(self):
        _, mean, _ = skewed_moments()
        found = chain_means(
            AnalyticTarget(skewed_log_likelihood),
            lambda z: z,
            dim=2,
            sampler=NUTS(warmup_draws=80, draws=60, low_rank=True),
        )
        assert averages_fit(found, torch.tensor([mean, mean]))

    def test_temperature_is_the_power_on_the_likelihood(self):
        # −λ (z − 2)²/2 with the prior is N(2λ/(1 + λ), 1/(1 + λ)).
        target = AnalyticTarget(lambda z: -(z - 2).square().sum(-1) / 2)
        found = chain_means(
            target,
            lambda z: torch.cat([z, (z - 1.5).square()], -1),
            dim=1,
            sampler=NUTS(warmup_draws=80, draws=60, temperature=3.0),
        )
        assert averages_fit(found, torch.tensor([1.5, 0.25]))

    def test_planted_bug_a_gradient_with_the_wrong_sign_shows_in_the_steps(self, monkeypatch):
        # The acceptance is of the true energy: the target stays, but steps shrink to nothing.
        right = nuts.tempered

        def planted(position, likelihood, temperature=1.0):
            value, gradient = right(position, likelihood, temperature)
            return value, -gradient

        target, sampler = (
            conjugate_regression().target(0.1),
            NUTS(warmup_draws=100, draws=5, max_depth=2),
        )
        (good,) = sample(target, sampler)
        monkeypatch.setattr(nuts, "tempered", planted)
        (bad,) = sample(target, sampler)
        assert good.step_size > 5 * bad.step_size


class TestRun:
    def test_first_evaluation_is_at_the_start_exactly(self):
        asked = []

        def log_likelihood(z):
            asked.append(z.detach().clone())
            return skewed_log_likelihood(z)

        sample(AnalyticTarget(log_likelihood), islands=2)
        assert torch.equal(asked[0], starts(4, 3))

    def test_evaluations_are_counted_exactly_and_batched(self):
        target = AnalyticTarget(skewed_log_likelihood)
        runs = sample(target, islands=2, particles=3)
        assert sum(run.epochs * 3 for run in runs) == pytest.approx(target.evaluations.gradient)
        # Leapfrog steps, and a few evaluations before the first draw.
        for run in runs:
            assert 1 <= run.epochs - sum(run.leapfrog) <= 40
        # As long as all chains go on, all are in one batch.
        assert target.calls[:100] == [6] * 100

    def test_what_a_run_tells(self):
        sampler = NUTS(warmup_draws=60, draws=5, thinning=3)
        (run,) = sample(AnalyticTarget(skewed_log_likelihood), sampler, particles=4)
        assert run.outcome == "completed"
        assert run.steps == sampler.steps == 75
        assert [draw.shape for draw in run.draws] == [(4, 3)] * 5
        assert len(run.acceptance) == len(run.leapfrog) == 75
        assert 0.4 < run.sampling_acceptance <= 1
        assert 0 < run.step_size < 10
        assert run.forward_epochs == run.non_finite == 0

    def test_kept_draws_are_every_third_and_the_last(self):
        target = AnalyticTarget(skewed_log_likelihood)
        (every,) = sample(target, NUTS(warmup_draws=40, draws=12))
        (third,) = sample(target, NUTS(warmup_draws=40, draws=4, thinning=3))
        assert torch.equal(torch.stack(third.draws), torch.stack(every.draws[2::3]))

    def test_an_island_is_the_same_alone_and_in_a_batch(self):
        target = AnalyticTarget(skewed_log_likelihood)
        both = sample(target, islands=2)
        alone = SHORT.run(target, island_noise(2, seed=1), starts(4, 3)[2:])
        assert torch.equal(torch.stack(both[1].draws), torch.stack(alone[0].draws))

    def test_chains_that_do_not_fit_side_by_side_run_in_turn(self, monkeypatch):
        target = AnalyticTarget(skewed_log_likelihood)
        whole = sample(target, islands=2, particles=3)
        monkeypatch.setattr(nuts, "MOST_CHAINS", 2)
        target.calls.clear()
        parts = sample(target, islands=2, particles=3)
        assert max(target.calls) == 2
        for one, other in zip(whole, parts, strict=True):
            assert torch.equal(torch.stack(one.draws), torch.stack(other.draws))

    def test_memory_limits_the_batch(self):
        assert NUTS().side_by_side(3) == nuts.MOST_CHAINS
        assert 16 * 6_320 * 1_400 * NUTS(draws=1_000).side_by_side(6_320) <= nuts.TRACE_BYTES
        assert NUTS(draws=10**6).side_by_side(10**6) == 1

    def test_report_sees_the_draws_come(self):
        seen = []

        def report(runs):
            assert threading.current_thread() is threading.main_thread()
            seen.append((runs[0].steps, runs[0].epochs))

        target = AnalyticTarget(skewed_log_likelihood)
        SHORT.run(target, island_noise(2), starts(2, 3), report)
        assert seen == sorted(seen)
        assert seen[-1][0] == SHORT.steps
        assert len(seen) > 10

    def test_nothing_is_printed_and_no_thread_is_left(self, capfd):
        before = set(threading.enumerate())
        sample(AnalyticTarget(skewed_log_likelihood), particles=4)
        assert set(threading.enumerate()) == before
        assert [thread for thread in _threads_of_nutpie() if thread] == []
        assert capfd.readouterr() == ("", "")


def _threads_of_nutpie():
    """Names of the process's threads that are nutpie's, given a moment to end."""
    if not os.path.isdir("/proc/self/task"):
        pytest.skip("threads cannot be listed here")
    for _ in range(100):
        names = []
        for task in os.listdir("/proc/self/task"):
            try:
                with open(f"/proc/self/task/{task}/comm") as file:
                    names.append(file.read().strip())
            except OSError:  # it has just ended
                continue
        found = [name for name in names if "nutpie" in name]
        if not found:
            return []
        time.sleep(0.02)
    return found


class TestTrouble:
    def test_a_start_that_is_not_finite_fails_its_island_alone(self, capfd):
        target = AnalyticTarget(lambda z: torch.where(z[:, 0] < -50, torch.nan, -z.exp().sum(-1)))
        start = starts(4, 3)
        start[1, 0] = -100
        runs = SHORT.run(target, island_noise(2, islands=2), start)
        assert [run.outcome for run in runs] == ["failed", "completed"]
        assert "1 of 2 particles at the start" in runs[0].message
        assert runs[0].draws == []
        assert _threads_of_nutpie() == []
        assert capfd.readouterr() == ("", "")

    def test_a_start_where_the_gradient_is_zero_is_no_trouble(self):
        start = torch.zeros(2, 3).double()
        asked = []

        def log_likelihood(z):
            asked.append(z.detach().clone())
            return 0 * z.sum(-1)

        (run,) = SHORT.run(AnalyticTarget(log_likelihood), island_noise(2), start)
        assert run.outcome == "completed"
        assert torch.equal(asked[0], start)
        assert len(torch.stack(run.draws).unique()) > SHORT.draws

    def test_a_hole_in_the_target_is_a_divergence_and_no_failure(self):
        # Beyond 1 the likelihood is not finite: half of N(0, 1) is cut off.
        def log_likelihood(z):
            return torch.where(z[:, 0] > 1, torch.nan, 0 * z.sum(-1))

        start = torch.zeros(4, 1).double()
        (run,) = NUTS(warmup_draws=50, draws=100).run(
            AnalyticTarget(log_likelihood), island_noise(4), start
        )
        assert run.outcome == "completed"
        assert run.non_finite > 0
        assert torch.stack(run.draws).max() <= 1

    @pytest.mark.parametrize("error", [ValueError, RuntimeError, KeyboardInterrupt])
    def test_errors_of_the_target_come_out_and_nothing_is_left_behind(self, error, capfd):
        calls = []

        def log_likelihood(z):
            calls.append(len(z))
            if len(calls) == 60:
                raise error("planted")
            return skewed_log_likelihood(z)

        with pytest.raises(error, match="planted"):
            sample(AnalyticTarget(log_likelihood), particles=3)
        assert len(calls) == 60
        assert _threads_of_nutpie() == []
        assert capfd.readouterr() == ("", "")

    def test_interrupting_the_process_ends_the_run(self):
        def log_likelihood(z):
            if len(target.calls) == 50:
                os.kill(os.getpid(), signal.SIGINT)
            return skewed_log_likelihood(z)

        target = AnalyticTarget(log_likelihood)
        with pytest.raises(KeyboardInterrupt):
            sample(target, NUTS(warmup_draws=10_000, draws=1))
        assert len(target.calls) < 100
        assert _threads_of_nutpie() == []

    def test_a_chain_that_dies_is_an_error_and_no_endless_wait(self, monkeypatch):
        class Dead:
            is_finished = True

            def cancel(self):
                pass

        monkeypatch.setattr(nuts_chains, "PATIENCE", 0.01)
        chain = nuts_chains.Chain(0, 0, 0, torch.zeros(2).double(), SHORT)
        with pytest.raises(RuntimeError, match="ended too early"):
            nuts_chains.run_side_by_side(lambda chain: Dead(), [chain], None, lambda: None)

    def test_an_error_is_the_failure_of_its_island(self):
        def log_likelihood(z):
            if ((z - 1000).abs() < 1).any():
                raise ValueError("planted")
            return skewed_log_likelihood(z)

        engine = AnalyticTarget(log_likelihood)
        engine.examples, engine.dim = Examples(torch.zeros(1, 1), torch.zeros(1)), 1
        engine.shareable = False
        engine.evaluate = lambda z, *others: engine(z)  # the prior's coordinates are the same
        one = torch.ones(1).double()
        target = Target(engine, AnchoredPrior(0 * one, one, 0 * one))
        # Both islands as one batch, which fails, and then one after the other.
        at = itertools.cycle([1000.0, 0.5])
        islands = run_islands(
            SHORT,
            target,
            lambda prior, rng, particles: next(at) + prior.sample(particles, rng) / 10,
            islands=2,
            particles=2,
            seed=0,
            progress=False,
        )
        assert [island.report.outcome for island in islands] == ["failed", "completed"]
        assert islands[0].report.message == "ValueError: planted"
        assert islands[1].positions.shape == (2 * SHORT.draws, 1)

    def test_fit_takes_the_draws_as_particles(self):
        problem = conjugate_regression()
        posterior = sbmc.fit(
            problem.model,
            (problem.inputs, problem.targets),
            s=0.1,
            prior_variance=problem.prior_variance,
            likelihood=sbmc.Gaussian(noise_variance=problem.noise_variance),
            sampler=SHORT,
            particles=2,
            islands=2,
            seed=0,
            progress=False,
        )
        assert posterior.positions.shape == (2, 2 * SHORT.draws, 3)
        mean, covariance = problem.posterior(0.1)
        # 80 correlated draws: six standard errors of 10 independent ones.
        error = covariance.diagonal().sqrt() * 6 / 10**0.5
        assert ((posterior.positions.flatten(0, 1).mean(0) - mean).abs() < error).all()

    def test_missing_package_names_the_extra(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "nutpie", None)
        with pytest.raises(BadInput, match=r"pip install 'sbmc\[nuts\]'"):
            sample(flat_target())


class TestManyDimensions:
    def test_six_thousand_dimensions(self):
        dim, examples = 6_000, 30
        rng = torch.Generator().manual_seed(0)
        inputs = torch.randn(examples, dim, generator=rng) / 10
        signs = torch.randint(2, (examples,), generator=rng) * 2.0 - 1

        def log_likelihood(z):
            return torch.nn.functional.logsigmoid(signs * (z @ inputs.T)).sum(-1)

        start = torch.randn(2, dim, generator=rng)
        target = AnalyticTarget(log_likelihood)
        (run,) = NUTS(warmup_draws=30, draws=5, max_depth=5).run(target, island_noise(2), start)
        assert run.outcome == "completed"
        assert run.draws[-1].dtype == torch.float32
        assert 0.5 < run.sampling_acceptance < 1
        # All but 30 directions are the prior's, in which ‖z‖² is chi-square: 6 standard deviations.
        norm = torch.stack(run.draws).square().sum(-1).numpy()
        assert np.abs(norm / dim - 1).max() < 6 * np.sqrt(2 / dim) + examples / dim

    @pytest.mark.slow
    def test_the_mnist7_network(self):
        from sbmc_studies.experiments.networks import build_network

        model = build_network("cnn", (1, 28, 28), 8)
        rng = torch.Generator().manual_seed(0)
        data = (torch.rand(50, 1, 28, 28, generator=rng), torch.randint(8, (50,), generator=rng))
        sampler = NUTS(warmup_draws=20, draws=5, max_depth=6)
        posterior = sbmc.fit(
            model, data, s=0.1, prior_variance=0.1, sampler=sampler, particles=2, progress=False
        )
        assert posterior.positions.shape == (1, 10, 6_320)
        assert torch.isfinite(posterior.positions).all()
