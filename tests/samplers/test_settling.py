"""The settling figure is nested R-hat, and decides when the exact moves of `AutoHMC` end."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from interrupting import Case, Interrupting
from targets import AnalyticTarget, conjugate_regression, island_noise, skewed_log_likelihood
from torch import nn

import sbmc
from sbmc import AutoHMC, BadInput
from sbmc.diagnostics.convergence import nested_rhat
from sbmc.samplers import settling
from sbmc.samplers.auto_state import AutoRun
from sbmc.samplers.settling import (
    FEWEST_MOVES,
    SETTLED,
    Moments,
    nested_rhat_of_particles,
    watched_predictions,
    watched_rows,
)

S = 0.25


def draws_of(shape, seed=0):
    """Skewed ones, `(draws, particles, quantities)`."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double().exp()


def moments_of(draws):
    moments = Moments.of_one(draws[0])
    for count, values in enumerate(draws[1:], start=2):
        moments = moments.with_draw(values, count)
    return moments


def plain_nested_rhat(draws):
    """By loops over the formula of the docstring."""
    count, particles, quantities = draws.shape
    between = within = 0.0
    for q in range(quantities):
        means = [sum(float(draws[n, k, q]) for n in range(count)) / count for k in range(particles)]
        middle = sum(means) / particles
        between += sum((mean - middle) ** 2 for mean in means) / (particles - 1)
        for k in range(particles):
            squares = sum((float(draws[n, k, q]) - means[k]) ** 2 for n in range(count))
            within += squares / (count - 1) / particles
    return math.sqrt(1 + between / within)


class TestNestedRhat:
    @pytest.mark.parametrize("shape", [(2, 2, 1), (7, 3, 1), (5, 4, 6)])
    def test_is_the_formula(self, shape):
        draws = draws_of(shape)
        figure = nested_rhat_of_particles(moments_of(draws), len(draws))
        assert figure == pytest.approx(plain_nested_rhat(draws), rel=1e-12)

    def test_is_that_of_the_diagnostics_for_one_quantity(self):
        draws = draws_of((9, 5, 1))
        expected = nested_rhat(draws.permute(1, 2, 0).numpy())
        assert nested_rhat_of_particles(moments_of(draws), 9) == pytest.approx(expected, rel=1e-12)

    def test_moments_are_those_of_numpy_far_from_zero(self):
        draws = 1e6 + draws_of((50, 3, 2))
        moments = moments_of(draws)
        np.testing.assert_allclose(moments.mean, draws.numpy().mean(0), rtol=1e-14)
        np.testing.assert_allclose(moments.squares, 50 * draws.numpy().var(0), rtol=1e-8)

    def test_closed_form(self):
        """Two particles that alternate by ±1 around 0 and around 2: B = 2, W = 4/3."""
        draws = torch.tensor([[1.0, 3.0], [-1.0, 1.0], [1.0, 3.0], [-1.0, 1.0]]).unsqueeze(-1)
        assert nested_rhat_of_particles(moments_of(draws), 4) == pytest.approx(math.sqrt(2.5))

    def test_independent_draws_have_what_is_expected_of_them(self):
        """E[B]/E[W] = 1/N. With 4000 particles B/W is known to 3 %; five standard errors."""
        draws = torch.randn(6, 4000, 1, generator=torch.Generator().manual_seed(1)).double()
        figure = nested_rhat_of_particles(moments_of(draws), 6)
        assert figure**2 - 1 == pytest.approx(1 / 6, rel=0.15)

    def test_quantities_that_do_not_vary_have_no_say(self):
        draws = draws_of((6, 4, 1))
        still = torch.cat([draws, torch.full((6, 4, 5), 0.3).double()], -1)
        alone = nested_rhat_of_particles(moments_of(draws), 6)
        assert nested_rhat_of_particles(moments_of(still), 6) == pytest.approx(alone)

    def test_what_cannot_be_told_is_not(self):
        assert nested_rhat_of_particles(moments_of(draws_of((1, 4, 2))), 1) is None
        assert nested_rhat_of_particles(moments_of(draws_of((5, 1, 2))), 5) is None
        assert nested_rhat_of_particles(moments_of(torch.ones(5, 4, 2)), 5) is None
        broken = draws_of((5, 4, 2))
        broken[2, 1, 0] = math.nan
        assert nested_rhat_of_particles(moments_of(broken), 5) is None

    def test_particles_that_stay_where_they_are_never_settle(self):
        frozen = draws_of((1, 4, 2)).expand(8, -1, -1)
        assert nested_rhat_of_particles(moments_of(frozen), 8) == math.inf


class TestWatchedPredictions:
    def classifier(self, examples=40, outputs=3):
        model = nn.Linear(2, outputs)
        inputs = torch.randn(examples, 2, generator=torch.Generator().manual_seed(0))
        labels = torch.arange(examples) % outputs
        return sbmc.build_target(model, (inputs, labels), s=S), inputs

    def test_are_class_probabilities_of_rows_spread_over_the_data(self):
        target, inputs = self.classifier()
        z = target.prior.sample(3, torch.Generator().manual_seed(1))
        weight, bias = target.prior.to_parameters(z).split([6, 3], 1)
        rows = inputs[::5]
        assert watched_rows(40).tolist() == list(range(0, 40, 5))
        logits = torch.einsum("pko,no->pnk", weight.view(3, 3, 2), rows) + bias[:, None]
        values = watched_predictions(target, z)
        assert values.dtype == torch.float64
        torch.testing.assert_close(values.float(), logits.softmax(-1).flatten(1))

    def test_are_outputs_in_a_regression(self):
        problem = conjugate_regression()
        target = problem.network_target(S)
        z = torch.randn(4, 3, generator=torch.Generator().manual_seed(1)).double()
        rows = problem.inputs[watched_rows(len(problem.inputs))]
        expected = target.prior.to_parameters(z) @ rows.T
        torch.testing.assert_close(watched_predictions(target, z), expected)

    def test_very_many_outputs_are_thinned(self, monkeypatch):
        target, _ = self.classifier()
        z = target.prior.sample(3, torch.Generator().manual_seed(1))
        everything = watched_predictions(target, z).view(3, 8, 3)
        monkeypatch.setattr(settling, "MOST_QUANTITIES", 17)  # two of each of the eight rows
        torch.testing.assert_close(
            watched_predictions(target, z).view(3, 8, 2), everything[..., :2]
        )

    def test_chunks_do_not_matter(self):
        target, _ = self.classifier()
        z = target.prior.sample(5, torch.Generator().manual_seed(1))
        at_once = watched_predictions(target, z)
        target.engine.settle(size=3)
        torch.testing.assert_close(watched_predictions(target, z), at_once)

    def test_a_target_without_data_has_none(self):
        target = AnalyticTarget(skewed_log_likelihood)
        assert watched_predictions(target, torch.zeros(2, 3)) is None


def run_of(draws, values):
    """A run whose moves had these predictions, `(moves, particles, ·)`, and log likelihoods."""
    run = AutoRun(0.1, draws.shape[1], settled=False, sampling_steps=len(draws))
    run.accepted_sum = torch.full((draws.shape[1],), 0.8 * len(draws))
    for k, each in enumerate(draws):
        run.values = values[: k + 1]
        run.note_predictions(each)
    return run


class TestSettled:
    def test_the_figure_is_the_larger_of_both(self):
        draws, values = draws_of((8, 5, 3)), draws_of((8, 5, 1), seed=1)[..., 0]
        apart = torch.arange(5.0).double()
        both = [plain_nested_rhat(draws), plain_nested_rhat(values[..., None])]
        assert run_of(draws, values).settling == pytest.approx(max(both))
        likelihoods = values + 10 * apart
        expected = plain_nested_rhat(likelihoods[..., None])
        assert run_of(draws, likelihoods).settling == pytest.approx(expected)
        predictions = draws + 10 * apart[:, None]
        expected = plain_nested_rhat(predictions)
        assert run_of(predictions, values).settling == pytest.approx(expected)

    def test_it_takes_moves_a_small_figure_and_no_drift(self):
        draws, values = draws_of((20, 6, 3)), draws_of((20, 6, 1), seed=1)[..., 0]
        assert run_of(draws, values).has_settled(1.5)
        assert not run_of(draws, values).has_settled(1.0001)
        few = FEWEST_MOVES - 1
        assert not run_of(draws[:few], values[:few]).has_settled(10)
        # All particles drift together: they do not differ, but they are not there yet.
        drifting = values + 5 * torch.arange(20.0).double()[:, None]
        run = run_of(draws, drifting)
        assert run.settling < 1.2
        assert not run.has_settled(1.5)

    def test_no_particle_may_be_stuck_and_none_far_from_equilibrium(self):
        draws, values = draws_of((20, 6, 3)), draws_of((20, 6, 1), seed=1)[..., 0]
        stuck = run_of(draws, values)
        stuck.accepted_sum[3] = 0.1 * 20
        assert not stuck.has_settled(1.5)
        relaxing = run_of(draws, values)
        relaxing.virial, relaxing.coordinates = 30.0, 6000
        assert not relaxing.has_settled(1.5)
        relaxing.virial = 1.0
        assert relaxing.has_settled(1.5)

    def test_one_particle_or_one_move_tells_nothing(self):
        assert AutoRun(0.1, 4, settled=False).settling is None
        assert run_of(draws_of((9, 1, 2)), draws_of((9, 1, 1))[..., 0]).settling is None


def regression(settings, particles=12, islands=1, target=None, checkpointer=None):
    target = conjugate_regression().network_target(S) if target is None else target
    rng = island_noise(particles, seed=3, islands=islands)
    rows = [torch.randn(particles, target.dim, generator=g).double() for g in rng.generators]
    options = {} if checkpointer is None else {"checkpointer": checkpointer}
    runs = settings.run(target, rng, torch.cat(rows), **options)
    return [*runs, torch.stack([g.get_state() for g in rng.generators])]


class TestAutoHMC:
    def test_ends_one_move_after_it_has_settled(self):
        (early, _), (whole, _) = (
            regression(AutoHMC(epochs=1000, settle=settle)) for settle in (SETTLED, None)
        )
        assert early.settled
        assert early.frozen_moves >= FEWEST_MOVES + 1
        assert early.epochs < 1000 == whole.epochs
        # The moves are those of the whole run, and the figure was small before the last of them.
        assert torch.equal(early.values, whole.values[: early.frozen_moves])
        assert (whole.settled, whole.settling, whole.prediction_mean) == (None, None, None)
        settled = [run_of_values(early.values[:k]) < SETTLED for k in range(2, early.frozen_moves)]
        assert settled[-1]

    def test_without_settling_it_spends_all_epochs_and_no_more(self):
        run, _ = regression(AutoHMC(epochs=100, settle=1.0001))
        assert run.settled is False
        assert run.epochs == 100

    def test_is_extended_while_it_has_not_settled(self):
        target = conjugate_regression().network_target(S)
        never, _ = regression(AutoHMC(epochs=100, settle=1.0001, extend=2.5), target=target)
        assert (never.settled, never.epochs) == (False, 250)
        assert target.evaluations.gradient == 12 * 250
        short, _ = regression(AutoHMC(epochs=60))
        extended, _ = regression(AutoHMC(epochs=60, extend=20))
        assert not short.settled
        assert extended.settled
        assert 60 < extended.epochs < 1200
        # Up to the end of the budget nothing is different.
        assert torch.equal(extended.values[: short.frozen_moves], short.values)

    def test_an_extension_of_mini_batches_alone_has_exact_moves(self):
        target = conjugate_regression(examples=576).network_target(S)
        assert regression(AutoHMC(epochs=16), target=target)[0].settled is None
        extended, _ = regression(AutoHMC(epochs=16, extend=8), target=target)
        assert extended.settled is not None
        assert extended.epochs <= 128

    def test_every_island_decides_for_itself(self):
        settings = AutoHMC(epochs=400)
        *together, _ = regression(settings, islands=3)
        assert len({run.epochs for run in together}) > 1
        rng = island_noise(12, seed=3, islands=3)
        for i, run in enumerate(together):
            start = torch.randn(12, 3, generator=rng.generators[i]).double()
            target = conjugate_regression().network_target(S)
            (alone,) = settings.run(target, rng.select([i]), start)
            assert (alone.epochs, alone.frozen_moves) == (run.epochs, run.frozen_moves)

    @pytest.mark.parametrize(
        "settings",
        [AutoHMC(epochs=400), AutoHMC(epochs=40, settle=1.05, extend=6)],
        ids=["early", "extended"],
    )
    def test_goes_on_with_the_same_bits(self, settings):
        it = self.case(settings)
        undisturbed, checkpointer = it.through(), Interrupting()
        assert it.through(checkpointer) == undisturbed
        count = len(checkpointer.offers)
        for stop in (count // 2, count - 4, count - 1):
            assert it.stopped(stop) == undisturbed, stop

    @pytest.mark.parametrize("name", ["prediction_mean", "prediction_squares", "values"])
    def test_what_is_forgotten_shows(self, name):
        """A snapshot without the moments, or with others, ends elsewhere."""

        def change(file):
            file["auto"][1][f"run.0.{name}"].mul_(-3)

        it = self.case(AutoHMC(epochs=400))
        checkpointer = Interrupting()
        it.through(checkpointer)
        stop = len(checkpointer.offers) - 2
        assert it.stopped(stop, change=change) != it.through()

    def test_a_figure_that_sees_no_difference_between_particles_stops_too_early(self, monkeypatch):
        """A planted bug: in two wells of different depths, particles settle each in its own."""
        target = AnalyticTarget(lambda z: 2 * z[..., 0] - 50 * (z[..., 0] ** 2 - 1).square())
        target.dim = 1
        settings = AutoHMC(epochs=1000)
        apart, _ = regression(settings, target=target)
        assert {-1.0, 1.0} == set(apart.draws[0].sign().flatten().tolist())
        assert (apart.settled, apart.epochs) == (False, 1000)

        def without_differences(moments, draws):
            same = moments.mean.mean(0).expand_as(moments.mean)
            return nested_rhat_of_particles(Moments(same, moments.squares), draws)

        name = "sbmc.samplers.auto_state.nested_rhat_of_particles"
        monkeypatch.setattr(name, without_differences)
        assert regression(settings, target=target)[0].settled

    @staticmethod
    def case(settings):
        def run(target, checkpointer):
            return regression(settings, islands=2, target=target, checkpointer=checkpointer)

        return Case(lambda: conjugate_regression().network_target(S), run)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"settle": 1.0}, "`settle` must be above 1 and finite, or None, but got 1.0"),
            ({"extend": 0.5}, "`extend` must be at least 1 and finite, but got 0.5"),
            ({"settle": None, "extend": 2}, "`extend` must be 1 where `settle` is None"),
        ],
    )
    def test_refusals(self, settings, message):
        with pytest.raises(BadInput) as refusal:
            AutoHMC(**settings)
        assert message in str(refusal.value)

    def test_the_forecast_says_that_it_may_end_before_or_after(self):
        assert AutoHMC(epochs=10).evaluations().notes == ()
        assert AutoHMC(epochs=100, settle=None).evaluations().notes == ()
        before, after = AutoHMC(epochs=100, extend=3).evaluations().notes
        assert "settle before" in before
        assert "up to 300 epochs" in after


def run_of_values(values):
    """The figure of a run whose log likelihoods alone are watched."""
    run = AutoRun(0.1, values.shape[1], settled=False)
    run.values = values
    return run.settling


class TestExactness:
    def test_positions_after_an_early_end_have_the_moments_of_the_posterior(self):
        """Mean of 40 islands of ten particles that ended early; five standard errors."""
        problem = conjugate_regression()
        target = problem.network_target(S)
        rng = island_noise(10, seed=50, islands=40)
        mean, covariance = problem.posterior(S)
        mode = target.prior.to_whitened(mean)
        start = mode + 0.01 * rng.normal(3, torch.float64)
        runs = AutoHMC(epochs=600).run(target, rng, start)
        early = [run for run in runs if run.epochs < 600]
        assert len(early) > 20
        draws = target.prior.to_parameters(torch.cat([run.draws[0] for run in runs]))
        error = (covariance.diagonal() / len(draws)).sqrt()
        assert ((draws.mean(0) - mean).abs() < 5 * error).all()
        ratio = draws.var(0) / covariance.diagonal()
        assert ((ratio - 1).abs() < 5 * math.sqrt(2 / len(draws))).all()
