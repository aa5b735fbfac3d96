"""Every sampler that is found in `sbmc.samplers` samples the posterior.

A conjugate regression, whose mean and covariance are known, and a skewed target, which shows signs
that are turned. Each check raises a false alarm with probability 1e-4, if the seed were drawn anew;
what is checked are the states of independent chains, or of chains long enough to be as good.
Samplers that reject nothing are held to the covariance that their docstrings state at the step size
that is used. A planted bug of each family is caught.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from checks import distribution_fits, mean_and_covariance_fit
from every_sampler import budget, every_run
from targets import (
    AnalyticTarget,
    conjugate_regression,
    island_noise,
    skewed_cdf,
    skewed_log_likelihood,
)
from torch import Tensor

import sbmc
from sbmc import HMC, MALA, SMC
from sbmc.samplers import ghmc, hmc_kernel, mala, pcn, sg_chains, sghmc, sgld, ubu
from sbmc.samplers.smc import tempering
from sbmc.samplers.smc.increments import tilt
from sbmc.target.target import Evaluation

S = 0.25


def exact(size: float, a: Tensor) -> Tensor:
    return 1 / a


class Budget(NamedTuple):
    """How a sampler is run here."""

    settings: dict[str, Any]
    particles: int = 400  # independent chains; times `draws` if there are several
    # The stated covariance as a function of the step size and the precision, which is diagonal.
    stated: Callable[[float, Tensor], Tensor] = exact


BUDGETS = {
    "HMC": Budget({"steps": 20}),
    "PCN": Budget({"epochs": 400}),
    "SMC": Budget({"mutations": 6, "move": HMC(), "ess": 0.8}),
    # Draws that are a few steps apart are all but independent.
    "NUTS": Budget({"warmup_draws": 100, "draws": 25, "thinning": 3}, particles=16),
    "SGLD": Budget(
        {"epochs": 260, "batch_size": 6, "step_size": 5e-3},
        stated=lambda size, a: 1 / a / (1 - size * a / 4),
    ),
    "SGHMC": Budget(
        {"epochs": 60, "batch_size": 6, "step_size": 0.05},
        stated=lambda size, a: 1 / a * (1 + size**2 * a / 4),
    ),
    "UBU": Budget(
        {"epochs": 60, "batch_size": 6, "step_size": 0.05},
        stated=lambda size, a: 1 / a * (1 - size**2 * a / 6),
    ),
    # So small that the bias is far below what these numbers of states can show.
    "MCLMC": Budget({"epochs": 800, "energy_variance": 1e-4}),
}
# Alike coordinates of the skewed target, where one is too few: no direction can turn in it.
DIMENSIONS = {"MCLMC": 4}


def budget_of(sampler):
    default = Budget(budget(sampler, epochs=200, steps=200))
    return BUDGETS.get(sampler.__name__, default)


def states(posterior_of, settings, particles):
    """Independent states `(count, dim)`; from a population with weights, a part drawn by weight."""
    if settings.default_weights != "evidence":
        return posterior_of(settings, particles)[0]
    positions, weights = posterior_of(settings, 4 * particles)
    rng = torch.Generator().manual_seed(1)
    return positions[torch.multinomial(weights, particles, generator=rng)]


def regression(settings, particles, dtype=torch.float64):
    """Positions and weights of one island of `fit`."""
    problem = conjugate_regression()
    posterior = sbmc.fit(
        problem.model.to(dtype),
        (problem.inputs.to(dtype), problem.targets.to(dtype)),
        s=S,
        prior_variance=problem.prior_variance,
        likelihood=sbmc.Gaussian(noise_variance=problem.noise_variance),
        sampler=settings,
        particles=particles,
        start="prior",
        seed=1,
        progress=False,
    )
    return posterior.positions[0], posterior.weights[0]


def regression_moments(settings, stated=exact):
    """Mean and covariance that the sampler says it leaves invariant."""
    problem = conjugate_regression()
    mean, covariance = problem.posterior(S)
    scale = S * problem.prior_variance
    precision, axes = torch.linalg.eigh(scale * torch.linalg.inv(covariance))
    variances = stated(getattr(settings, "step_size", None), precision)
    return mean, axes @ (scale * variances).diag() @ axes.T


class PoissonBatches:
    """In place of `MiniBatches`: four counts y with rates c·exp(z), whose sum is the skewed target.

    Σ y z − c exp(z) = 3 z − 2 exp(z), and no two of the four are alike.
    """

    counts = torch.tensor([1.0, 0.0, 2.0, 0.0], dtype=torch.float64)
    exposure = torch.tensor([0.4, 0.7, 0.3, 0.6], dtype=torch.float64)

    stream = None  # the data are at hand

    def __init__(self, target):
        self.target = target

    def __len__(self):
        return 4

    def __call__(self, z, index):
        scale = 4 / index.shape[1]
        y, c = (part[index].sum(1, keepdim=True) for part in (self.counts, self.exposure))
        value, gradient = y * z - c * z.exp(), y - c * z.exp()
        return Evaluation(scale * value[:, 0], scale * gradient)


def skewed(settings, particles):
    """Positions and weights of one island on the skewed target."""
    rng = island_noise(particles, seed=3)
    target = AnalyticTarget(skewed_log_likelihood)
    start = rng.normal(DIMENSIONS.get(type(settings).__name__, 1), torch.float64)
    (run,) = settings.run(target, rng, start)
    positions = torch.cat(run.draws)
    even = torch.zeros(len(positions), dtype=torch.float64)
    return positions[:, 0], getattr(run, "log_weights", even).exp()


@pytest.fixture(autouse=True)
def _poisson_batches(request, monkeypatch):
    if "skewed" in request.node.name:
        monkeypatch.setattr(sg_chains, "MiniBatches", PoissonBatches)


@every_run
def test_regression(sampler):
    settings, particles, stated = budget_of(sampler)
    settings = sampler(**settings)
    expected = regression_moments(settings, stated)
    assert mean_and_covariance_fit(states(regression, settings, particles), *expected)


@pytest.mark.parametrize("sampler", [sbmc.SGLD, sbmc.SGHMC, sbmc.UBU])
def test_regression_by_kernels_and_noise_in_c(sampler):
    """In single precision: mini-batches, noise and steps are those of the compiled code."""
    settings, particles, stated = budget_of(sampler)
    settings = sampler(**settings, noise="philox")
    expected = regression_moments(settings, stated)
    found, _ = regression(settings, particles, torch.float32)
    assert mean_and_covariance_fit(found.double(), *expected)


@every_run
def test_skewed_target(sampler):
    """At these step sizes a stated bias of the variance is under 1 %, which 1,000 cannot show."""
    settings, particles, _ = budget_of(sampler)
    if "batch_size" in settings:
        settings = {**settings, "batch_size": 2}
    more = particles if settings.get("draws", 1) > 1 else 1000
    assert distribution_fits(states(skewed, sampler(**settings), more), skewed_cdf())


# Planted bugs


def forget_the_prior(state, momentum, temperature):
    return momentum.double().square().sum(-1) / 2 - temperature * state.log_likelihood


def turn_the_likelihood(state, momentum, temperature):
    squares = momentum.double().square().sum(-1) + state.position.double().square().sum(-1)
    return squares / 2 + temperature * state.log_likelihood


def mirrored(step):
    """The likelihood is weighed with the wrong sign when a step is accepted."""

    def wrong(rng, state, target, **options):
        turned = state._replace(log_likelihood=-state.log_likelihood)
        return step(rng, turned, _Turned(target), **options)

    return wrong


class _Turned:
    """A target whose values are negative, and whose gradients are right."""

    def __init__(self, target):
        self.target, self.evaluations = target, target.evaluations

    def __call__(self, positions):
        value, gradient = self.target(positions)
        return type(self.target(positions))(-value, gradient)

    def log_likelihood(self, positions):
        return -self.target.log_likelihood(positions)


class TestFullGradientBugs:
    @pytest.mark.parametrize("wrong", [forget_the_prior, turn_the_likelihood])
    @pytest.mark.parametrize("module", [hmc_kernel, ghmc])
    def test_a_wrong_energy(self, monkeypatch, module, wrong):
        plain = HMC(steps=24, step_size=0.1, adapt=False, launch=0)
        settings = {hmc_kernel: plain, ghmc: sbmc.GHMC(epochs=100)}[module]
        expected = regression_moments(settings)
        assert mean_and_covariance_fit(states(regression, settings, 400), *expected)
        monkeypatch.setattr(module, "hamiltonian", wrong)
        assert not mean_and_covariance_fit(states(regression, settings, 400), *expected)

    @pytest.mark.parametrize(("module", "name"), [(mala, "MALA"), (pcn, "PCN")])
    def test_a_sign_turned_in_the_acceptance(self, monkeypatch, module, name):
        settings = getattr(sbmc, name)(epochs=60, step_size=0.3, adapt=False)
        monkeypatch.setattr(module, "step", mirrored(module.step))
        found = states(regression, settings, 400)
        assert not mean_and_covariance_fit(found, *regression_moments(settings))


class MirroredBatches(PoissonBatches):
    def __call__(self, z, index):
        value, gradient = super().__call__(-z, index)
        return Evaluation(value, -gradient)


def test_a_mirrored_likelihood_shows_on_the_skewed_target(monkeypatch):
    monkeypatch.setattr(sg_chains, "MiniBatches", MirroredBatches)
    settings = sbmc.UBU(**{**BUDGETS["UBU"].settings, "batch_size": 2})
    assert not distribution_fits(states(skewed, settings, 1000), skewed_cdf())


class _Weaker:
    """Noise of four fifths of its scale."""

    def __init__(self, rng):
        self.rng = rng

    def normal(self, dim, dtype):
        return 0.8 * self.rng.normal(dim, dtype)


@pytest.mark.parametrize("module", [sgld, sghmc, ubu])
def test_noise_of_the_wrong_scale_in_a_stochastic_gradient(monkeypatch, module):
    sampler = getattr(sbmc, module.__name__.rpartition(".")[2].upper())
    options, particles, stated = budget_of(sampler)
    settings, step = sampler(**options), module.step
    monkeypatch.setattr(module, "step", lambda rng, *a, **o: step(_Weaker(rng), *a, **o))
    expected = regression_moments(settings, stated)
    assert not mean_and_covariance_fit(states(regression, settings, particles), *expected)


def test_weights_that_smc_does_not_carry_over(monkeypatch):
    def forget(log_weights, log_likelihood, increment):
        even = torch.zeros_like(log_weights).log_softmax(-1)
        return tilt(even, log_likelihood, increment)

    # Moves so short, and a resampling so rare, that weights do all the work.
    settings = SMC(
        mutations=1,
        move=MALA(step_size=0.1, adapt=False),
        temperatures=(0.25, 0.5, 0.75, 1.0),
        resample_below=0.01,
    )
    assert distribution_fits(states(skewed, settings, 700), skewed_cdf())
    monkeypatch.setattr(tempering, "tilt", forget)
    assert not distribution_fits(states(skewed, settings, 700), skewed_cdf())
