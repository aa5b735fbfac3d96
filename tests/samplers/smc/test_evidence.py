"""Statistical tests: posterior, evidence, and what many small islands make of them.

Each states how often it would raise a false alarm if its seed were drawn anew; the seeds are fixed.
Each has a planted bug that it catches.
"""

import math
import warnings

import numpy as np
import pytest
import torch
from checks import averages_fit, distribution_fits, mean_and_covariance_fit
from targets import (
    AnalyticTarget,
    conjugate_regression,
    island_noise,
    prior_draws,
    run_smc,
    skewed_cdf,
    skewed_log_likelihood,
    skewed_moments,
)

import sbmc
from sbmc.samplers import HMC, MALA, PCN, SMC
from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.smc import driver, tempering
from sbmc.samplers.smc.increments import tilt
from sbmc.samplers.smc.pilot import learn
from sbmc.samplers.smc.resampling import RESAMPLING, systematic

MODES = {"plain": {}, "threshold": {"resample_below": 0.6}, "waste-free": {"waste_free": True}}

# Planted bugs


def forget_carried_weights(monkeypatch):
    def wrong(log_weights, log_likelihood, increment):
        even = torch.full_like(log_weights, -math.log(log_weights.shape[-1]))
        return tilt(even, log_likelihood, increment)

    monkeypatch.setattr(tempering, "tilt", wrong)


def sum_instead_of_mean(monkeypatch):
    def wrong(log_weights, log_likelihood, increment):
        return tilt(log_weights, log_likelihood, increment) + math.log(log_weights.shape[-1])

    monkeypatch.setattr(tempering, "tilt", wrong)


def turn_the_sign(monkeypatch):
    monkeypatch.setattr(tempering, "tilt", lambda w, values, change: tilt(w, values, -change))


def ignore_weights(monkeypatch):
    def wrong(rng, weights, count):
        return systematic(rng, torch.full_like(weights, 1 / len(weights)), count)

    monkeypatch.setitem(RESAMPLING, "systematic", wrong)


def weigh_twice(monkeypatch):
    def wrong(scheme, count):
        select = tempering.select_always(scheme, count)

        def selects(rng, log_weights):
            chosen = select(rng, log_weights)
            kept = log_weights.gather(1, chosen.ancestors).log_softmax(1)
            return chosen._replace(log_weights=kept)

        return selects

    monkeypatch.setattr(driver, "select_always", wrong)


def keep_the_old_temperature(monkeypatch):
    """The moves leave the last temperature's target invariant, and not the new one's."""
    step = tempering.tempered_step

    def wrong(rng, state, *, increment, resample, move):
        def lagging(noise, particles, temperature):
            return move(noise, particles, state.temperature.clamp(min=0.01))

        return step(rng, state, increment=increment, resample=resample, move=lagging)

    monkeypatch.setattr(driver, "tempered_step", wrong)


# Many particles


def skewed() -> AnalyticTarget:
    return AnalyticTarget(skewed_log_likelihood)


def log_evidence_fits(run, expected: float, count: int, dependence: float = 1.0) -> bool:
    """Within five standard errors: a false alarm comes once in a million.

    At an effective sample size of ρN, a temperature adds (1/ρ − 1)/N to the variance of log Z, and
    so many times as much if particles depend on one another.
    """
    variances = [count / each["ess"] - 1 for each in run.temperatures]
    error = math.sqrt(dependence * sum(variances) / count)
    return abs(run.log_evidence - expected) < 5 * error


def fit_regression(s, sampler, particles=1000, islands=1, seed=3):
    problem = conjugate_regression()
    with warnings.catch_warnings():
        # Islands of few particles are told to have collapsed, rightly: they stem from one draw.
        warnings.filterwarnings("ignore", message="The population of", category=RuntimeWarning)
        return sbmc.fit(
            problem.model,
            (problem.inputs, problem.targets),
            s=s,
            prior_variance=problem.prior_variance,
            likelihood=sbmc.Gaussian(noise_variance=problem.noise_variance),
            sampler=sampler,
            particles=particles,
            islands=islands,
            seed=seed,
            progress=False,
        )


class TestManyParticlesOfARegression:
    """Mean and covariance: a false alarm with probability 1e-4 each; the evidence: 1e-6.

    Moves of a quarter period, and several of them, make particles all but independent.
    """

    # Temperatures close enough for the step size to follow.
    SAMPLER = SMC(mutations=6, move=HMC(), ess=0.8)

    @pytest.mark.parametrize("s", [0.25, 1.0])
    def test_mean_covariance_and_evidence(self, s):
        problem = conjugate_regression()
        posterior = fit_regression(s, self.SAMPLER)
        assert mean_and_covariance_fit(posterior.positions[0], *problem.posterior(s))
        (report,) = posterior.islands
        assert report.steps > 3
        assert log_evidence_fits(report, problem.log_evidence(s), 1000)

    @pytest.mark.parametrize("s", [0.25, 1.0])
    @pytest.mark.parametrize("bug", [sum_instead_of_mean, turn_the_sign])
    def test_wrong_evidence_is_caught(self, monkeypatch, bug, s):
        bug(monkeypatch)
        (report,) = fit_regression(s, SMC(mutations=2), particles=200).islands
        assert not log_evidence_fits(report, conjugate_regression().log_evidence(s), 200)

    @pytest.mark.parametrize("s", [0.25, 1.0])
    def test_moves_at_the_old_temperature_are_caught(self, monkeypatch, s):
        coarse = SMC(
            mutations=6,
            move=HMC(),
            temperatures=(0.02, 0.1, 0.4, 1.0),
            step_sizes=(0.4, 0.3, 0.2, 0.1),
        )
        expected = conjugate_regression().posterior(s)
        assert mean_and_covariance_fit(fit_regression(s, coarse).positions[0], *expected)
        keep_the_old_temperature(monkeypatch)
        assert not mean_and_covariance_fit(fit_regression(s, coarse).positions[0], *expected)

    @pytest.mark.parametrize(
        "settings",
        [
            SMC(mutations=40, move=MALA()),
            SMC(mutations=150, move=PCN()),
            SMC(mutations=6, move=HMC(), resampling="multinomial"),
        ],
        ids=["mala", "pcn", "multinomial"],
    )
    def test_other_moves_and_the_analytic_target(self, settings):
        problem = conjugate_regression()
        (run,) = run_smc(settings, problem.target(0.25), 1000, seed=8, dim=3)
        found = problem.parameters(0.25, run.draws[0])
        assert mean_and_covariance_fit(found, *problem.posterior(0.25))
        assert log_evidence_fits(run, problem.log_evidence(0.25), 1000)


class TestManyParticlesOfASkewedTarget:
    """The distribution: a false alarm with probability 1e-4 each; the evidence: 1e-6."""

    @staticmethod
    def independent(run, count=700):
        """Draws by weight from a larger population whose members are all but independent."""
        rng = torch.Generator().manual_seed(1)
        chosen = torch.multinomial(run.log_weights.exp(), count, generator=rng)
        return run.draws[0][chosen, 0]

    @pytest.mark.parametrize("mode", MODES)
    def test_distribution_and_evidence(self, mode):
        settings = SMC(mutations=12, move=MALA(), ess=0.7, **MODES[mode])
        (run,) = run_smc(settings, skewed(), 1000 if mode == "waste-free" else 4000, seed=2)
        assert distribution_fits(self.independent(run), skewed_cdf())
        # States that follow one another are correlated by a half or so: three count as one.
        dependence = 3.0 if mode == "waste-free" else 1.0
        count = len(run.log_weights)
        assert log_evidence_fits(run, skewed_moments()[0], count, dependence)
        assert (run.log_weights.exp().std() > 1e-6) == (mode == "threshold")

    def test_a_turned_sign_is_caught(self, monkeypatch):
        turn_the_sign(monkeypatch)
        settings = SMC(mutations=1, move=MALA(step_size=0.2), ess=0.7)
        (run,) = run_smc(settings, skewed(), 4000, seed=2)
        assert not distribution_fits(self.independent(run), skewed_cdf())
        assert not log_evidence_fits(run, skewed_moments()[0], 4000)

    @pytest.mark.parametrize("bug", [ignore_weights, weigh_twice])
    def test_wrong_weights_are_caught(self, monkeypatch, bug):
        def population():
            # Short moves, which do not make up for wrong weights.
            settings = SMC(
                mutations=1, move=MALA(step_size=0.2, adapt=False), temperatures=(0.5, 1.0)
            )
            (run,) = run_smc(settings, skewed(), 4000, seed=2)
            return self.independent(run)

        assert distribution_fits(population(), skewed_cdf())
        bug(monkeypatch)
        assert not distribution_fits(population(), skewed_cdf())


# Few particles, many islands


def relative_evidence(runs, expected: float) -> torch.Tensor:
    """Z over the true one, of each island."""
    logs = torch.tensor([run.log_evidence for run in runs], dtype=torch.float64)
    return (logs - expected).exp()


def unbiased(relative: torch.Tensor) -> bool:
    """Whether Z / Z_true averages 1, and varies little enough for the average to say so."""
    return float(relative.std()) < 2 and averages_fit(relative.unsqueeze(1), torch.ones(1))


def weighted_mean_fits(relative, means, expected, false_alarm=1e-4) -> bool:
    """Whether the evidence-weighted mean `Σ Z m / Σ Z` of islands may be `expected` `(dim,)`.

    Σ Z (m − expected) has the expectation zero, exactly, if Z and m are of an unbiased SMC.
    """
    residuals = relative.unsqueeze(1) * (means - expected)
    return averages_fit(residuals, torch.zeros_like(expected), false_alarm)


class TestManyIslandsOfARegression:
    """N = 10, everything frozen.

    Student's limits are set to 1e-4 each. Estimates of Z are skewed, with a coefficient of
    variation of 0.8: for as many islands as here, false alarms come with less than 1e-3.
    """

    # The plain mode is the one of the next test.
    @pytest.mark.parametrize("mode", ["threshold", "waste-free"])
    def test_the_evidence_is_unbiased_and_weighs_islands_rightly(self, mode):
        problem = conjugate_regression()
        target = problem.target(0.25)
        adaptive = SMC(mutations=4, ess=0.8, move=HMC(leapfrog=2), pilot=True, **MODES[mode])
        rng = island_noise(50, seed=77)
        frozen, _ = learn(adaptive, target, rng, prior_draws(rng, adaptive, 3))
        runs = run_smc(frozen, target, 10, islands=240, seed=1000, dim=3)
        relative = relative_evidence(runs, problem.log_evidence(0.25))
        assert 0.3 < relative.std() < 1.2
        assert unbiased(relative)
        mean, covariance = problem.posterior(0.25)
        places = [problem.parameters(0.25, run.draws[0]) for run in runs]
        weights = [run.log_weights.exp().unsqueeze(1) for run in runs]
        means = torch.stack([(w * x).sum(0) for w, x in zip(weights, places, strict=True)])
        assert weighted_mean_fits(relative, means, mean)
        squares = [(w * (x - mean).square()).sum(0) for w, x in zip(weights, places, strict=True)]
        assert weighted_mean_fits(relative, torch.stack(squares), covariance.diagonal())

    @pytest.mark.parametrize("s", [0.25, 1.0])
    def test_through_fit_and_its_own_pilot(self, monkeypatch, s):
        monkeypatch.setattr("sbmc.islands.job.FOLD_PARTICLES", 10 * 240)
        problem = conjugate_regression()
        sampler = SMC(mutations=4, ess=0.8, move=HMC(leapfrog=2), pilot=True)
        posterior = fit_regression(s, sampler, particles=10, islands=240, seed=6)
        relative = (posterior.log_evidence - problem.log_evidence(s)).exp()
        assert unbiased(relative)
        mean, _ = problem.posterior(s)
        means = (posterior.within.unsqueeze(-1) * posterior.positions).sum(1)
        assert weighted_mean_fits(relative, means, mean)
        # What `posterior` makes of them is that mean, and that evidence.
        together = (posterior.weights.unsqueeze(-1) * posterior.positions).sum((0, 1))
        by_hand = (relative.unsqueeze(1) * means).sum(0) / relative.sum()
        torch.testing.assert_close(together, by_hand)
        expected = problem.log_evidence(s) + math.log(relative.mean())
        assert posterior.evidence.log == pytest.approx(expected, abs=1e-9)
        error = float(relative.std() / relative.mean()) / math.sqrt(240)
        assert posterior.evidence.standard_error == pytest.approx(error)
        # A mean that is off by half a standard deviation would not do.
        off = mean + 0.5 * problem.posterior(s)[1].diagonal().sqrt()
        assert not weighted_mean_fits(relative, means, off)


# Few and short moves, which do not make up for wrong weights.
SHORT = {"temperatures": (0.1, 0.4, 1.0), "step_sizes": (0.3, 0.3, 0.3)}


def skewed_islands(mode: str, islands: int = 400, resampling: str = "systematic"):
    settings = SMC(mutations=2, move=MALA(), resampling=resampling, **SHORT, **MODES[mode])
    assert settings.frozen
    return run_smc(settings, skewed(), 10, islands=islands, seed=1000)


class TestManyIslandsOfASkewedTarget:
    """N = 10, everything frozen: a false alarm with probability 1e-4 each."""

    @pytest.mark.parametrize("mode", MODES)
    def test_the_evidence_is_unbiased_and_weighs_islands_rightly(self, mode):
        log_evidence, mean, variance = skewed_moments()
        runs = skewed_islands(mode)
        relative = relative_evidence(runs, log_evidence)
        assert unbiased(relative)
        moments = [
            [float(run.log_weights.exp() @ (run.draws[0][:, 0] - c) ** p) for c, p in SKEWED_POWERS]
            for run in runs
        ]
        expected = torch.tensor([mean, variance], dtype=torch.float64)
        assert weighted_mean_fits(relative, torch.tensor(moments).double(), expected)

    @pytest.mark.parametrize("resampling", ["stratified", "residual", "multinomial"])
    def test_with_other_schemes(self, resampling):
        runs = skewed_islands("plain", 200, resampling)
        assert unbiased(relative_evidence(runs, skewed_moments()[0]))

    @pytest.mark.parametrize(
        ("mode", "bug"),
        [
            ("plain", sum_instead_of_mean),
            ("plain", turn_the_sign),
            ("plain", ignore_weights),
            ("plain", weigh_twice),
            ("plain", keep_the_old_temperature),
            ("threshold", forget_carried_weights),
            ("threshold", sum_instead_of_mean),
            ("waste-free", ignore_weights),
            ("waste-free", weigh_twice),
        ],
    )
    def test_planted_bugs_are_caught(self, monkeypatch, mode, bug):
        bug(monkeypatch)
        runs = skewed_islands(mode, 400)
        assert not unbiased(relative_evidence(runs, skewed_moments()[0]))

    def test_a_mirrored_likelihood_is_caught(self):
        """Its evidence is another, as that of a symmetric one would not be."""
        mirrored = AnalyticTarget(lambda z: skewed_log_likelihood(-z) + 0.5 * z.sum(-1))
        runs = run_smc(SMC(mutations=2, move=MALA(), **SHORT), mirrored, 10, islands=200)
        assert not unbiased(relative_evidence(runs, skewed_moments()[0]))


SKEWED_POWERS = ((0.0, 1), (skewed_moments()[1], 2))


# The theory of islands: N fixed, P growing


def two_modes(z: torch.Tensor) -> torch.Tensor:
    """A broad mode, and a narrow one with most of the evidence that few draws of the prior see."""
    x = z[:, 0]
    broad, narrow = -2 * (x + 1) ** 2, math.log(9) - (x - 2.1) ** 2 / (2 * 0.4**2)
    return torch.logaddexp(broad, narrow)


def two_modes_by_quadrature() -> tuple[float, float]:
    """Log evidence and posterior mean."""
    grid = np.linspace(-8, 8, 40_001)
    likelihood = two_modes(torch.from_numpy(grid).unsqueeze(1)).exp().numpy()
    density = likelihood * np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi)
    evidence = np.trapezoid(density, grid)
    return math.log(evidence), float(np.trapezoid(grid * density, grid) / evidence)


@pytest.fixture(scope="module")
def islands():
    """Evidence over the true one, and mean, of each island."""
    settings = SMC(mutations=1, move=MALA(), temperatures=(0.3, 1.0), step_sizes=(0.5, 0.5))
    assert settings.frozen
    # One generator for all: islands need noise that is independent, not their own.
    rng = IslandNoise([torch.Generator().manual_seed(5)] * 6400, 4)
    start = torch.randn(6400 * 4, 1, generator=rng.generators[0], dtype=torch.float64)
    runs = settings.run(AnalyticTarget(two_modes), rng, start)
    means = [run.log_weights.exp() @ run.draws[0][:, 0] for run in runs]
    return relative_evidence(runs, two_modes_by_quadrature()[0]), torch.stack(means)


class TestManyIslands:
    """The error of islands of four particles, from 100 groups of 64 of them.

    With fresh seeds, the fitted slope has a standard deviation of 0.05: 0.2 is four of them, and a
    false alarm comes less than once in ten thousand runs.
    """

    NUMBERS = 2 ** np.arange(7)

    def errors(self, weights, means) -> np.ndarray:
        """Mean square error of the weighted mean of P islands, for each P."""
        found = []
        for number in self.NUMBERS:
            grouped = weights.view(-1, number)
            together = (grouped * means.view(-1, number)).sum(1) / grouped.sum(1)
            found.append(float((together - two_modes_by_quadrature()[1]).square().mean()))
        return np.array(found)

    def falls_like_one_over_p(self, errors: np.ndarray) -> bool:
        slope = np.polyfit(np.log(self.NUMBERS), np.log(errors), 1)[0]
        return abs(slope + 1) < 0.2

    def test_evidence_is_unbiased_and_unequal(self, islands):
        relative, _ = islands
        assert 0.5 < float(relative.std()) < 2
        assert unbiased(relative)

    def test_by_evidence_the_error_falls_like_one_over_p(self, islands):
        relative, means = islands
        errors = self.errors(relative, means)
        assert self.falls_like_one_over_p(errors)
        # To the end: there is no bias that stays.
        assert errors[-1] < 0.45 * errors[-3]

    def test_the_plain_average_keeps_its_bias_and_fails(self, islands):
        _, means = islands
        errors = self.errors(torch.ones_like(means), means)
        assert not self.falls_like_one_over_p(errors)
        bias = float(means.mean()) - two_modes_by_quadrature()[1]
        assert bias < -0.3
        assert errors[-1] == pytest.approx(bias**2, rel=0.15)

    def test_weights_by_the_square_of_the_evidence_keep_a_bias_too(self, islands):
        relative, means = islands
        errors = self.errors(relative**2, means)
        assert errors[-1] > 2 * self.errors(relative, means)[-1]
