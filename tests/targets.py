"""Targets with known answers: a conjugate regression, a skewed density, a flat likelihood.

And what runs samplers on them: noise for islands, populations that start at the prior.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.integrate import cumulative_trapezoid
from torch import Tensor, nn

import sbmc
from sbmc import HMC, SMC
from sbmc.likelihoods import Likelihood
from sbmc.model.chunks import Chunks
from sbmc.model.data import Examples
from sbmc.model.forward import Forward, build_forward
from sbmc.model.parameters import select_parameters
from sbmc.prior.gaussian import AnchoredPrior, anchored_prior
from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.smc.diagnostics import SMCRun
from sbmc.target.engine import LikelihoodEngine
from sbmc.target.target import Evaluation, Evaluations, Target


def target_of(
    forward: Forward,
    examples: Examples,
    likelihood: Likelihood,
    prior: AnchoredPrior,
    chunks: Chunks | None = None,
    power: float = 1.0,
    room: int | None = None,
    **options: Any,
) -> Target:
    """A target whose engine is settled: with these chunks, and inside `room` bytes."""
    engine = LikelihoodEngine(forward, examples, likelihood, prior.mean, **options)
    engine.settle(room, chunks)
    return Target(engine, prior, power)


class AnalyticTarget:
    """A log likelihood as a function of whitened positions, with autograd for its gradient."""

    def __init__(self, log_likelihood: Callable[[Tensor], Tensor]) -> None:
        self.function = log_likelihood
        self.evaluations = Evaluations()
        self.calls: list[int] = []

    def __call__(self, positions: Tensor) -> Evaluation:
        self.evaluations.gradient += len(positions)
        self.calls.append(len(positions))
        z = positions.detach().clone().requires_grad_()
        value = self.function(z)
        (gradient,) = torch.autograd.grad(value.sum(), z, allow_unused=True)
        gradient = torch.zeros_like(z) if gradient is None else gradient
        return Evaluation(value.detach().double().clone(), gradient.clone())

    def log_likelihood(self, positions: Tensor) -> Tensor:
        """The log likelihood alone, counted as a forward evaluation."""
        self.evaluations.forward += len(positions)
        self.calls.append(len(positions))
        return self.function(positions.detach()).double().clone()


def island_noise(particles: int, seed: int = 0, islands: int = 1) -> IslandNoise:
    """Noise of islands whose seeds follow on one another."""
    generators = [torch.Generator().manual_seed(seed + i) for i in range(islands)]
    return IslandNoise(generators, particles)


def prior_draws(rng: IslandNoise, settings: SMC, dim: int) -> Tensor:
    """Where SMC starts: each island's draws from N(0, I), by its own noise."""
    population = settings.population(rng.particles)
    rows = [torch.randn(population, dim, generator=g, dtype=torch.float64) for g in rng.generators]
    return torch.cat(rows)


def run_smc(
    settings: SMC,
    target: AnalyticTarget,
    particles: int,
    islands: int = 1,
    seed: int = 0,
    dim: int = 1,
) -> list[SMCRun]:
    """Islands of SMC from draws of the prior in float64, as one batch."""
    rng = island_noise(particles, seed, islands)
    return settings.run(target, rng, prior_draws(rng, settings, dim))


def flat_target() -> AnalyticTarget:
    """No data: the posterior is the prior N(0, I)."""
    return AnalyticTarget(lambda z: 0.0 * z.sum(-1))


def skewed_log_likelihood(z: Tensor) -> Tensor:
    """Σ_d 3 z_d − 2 exp(z_d): with the prior, a density with a long tail to the left."""
    return (3 * z - 2 * z.exp()).sum(-1)


def skewed_cdf() -> Callable[[np.ndarray], np.ndarray]:
    """Distribution function of one coordinate of the skewed posterior, by quadrature."""
    grid, density = _skewed_density()
    mass = np.concatenate([[0.0], cumulative_trapezoid(density, grid)])
    return lambda values: np.interp(values, grid, mass / mass[-1])


def skewed_moments() -> tuple[float, float, float]:
    """Log evidence, mean and variance of one coordinate of the skewed posterior, by quadrature."""
    grid, density = _skewed_density()
    evidence = np.trapezoid(density, grid)
    mean = np.trapezoid(grid * density, grid) / evidence
    variance = np.trapezoid((grid - mean) ** 2 * density, grid) / evidence
    return float(np.log(evidence)), float(mean), float(variance)


def _skewed_density() -> tuple[np.ndarray, np.ndarray]:
    """A grid, and likelihood times prior density on it."""
    grid = np.linspace(-8, 6, 20_001)
    return grid, np.exp(3 * grid - 2 * np.exp(grid) - grid**2 / 2) / np.sqrt(2 * np.pi)


class Regression(NamedTuple):
    """A Bayesian linear regression whose posterior is known."""

    model: nn.Linear
    inputs: Tensor
    targets: Tensor
    noise_variance: float
    prior_variance: float

    def posterior(self, s: float) -> tuple[Tensor, Tensor]:
        """Mean and covariance of the anchored posterior, from the normal equations."""
        anchor = self.model.weight.detach()[0]
        centre = anchor if s < 0.5 else torch.zeros_like(anchor)
        variance = s * self.prior_variance
        precision = self.inputs.T @ self.inputs / self.noise_variance
        precision = precision + torch.eye(len(anchor)).to(precision) / variance
        pull = self.inputs.T @ self.targets / self.noise_variance + centre / variance
        covariance = torch.linalg.inv(precision)
        return covariance @ pull, covariance

    def log_evidence(self, s: float) -> float:
        """Log density of the targets under the anchored prior's predictive distribution."""
        anchor = self.model.weight.detach()[0]
        centre = anchor if s < 0.5 else torch.zeros_like(anchor)
        spread = s * self.prior_variance * self.inputs @ self.inputs.T
        spread = spread + self.noise_variance * torch.eye(len(self.inputs)).to(spread)
        predictive = torch.distributions.MultivariateNormal(self.inputs @ centre, spread)
        return float(predictive.log_prob(self.targets))

    def parameters(self, s: float, whitened: Tensor) -> Tensor:
        """Weights of the model at whitened positions."""
        anchor = self.model.weight.detach()[0]
        centre = anchor if s < 0.5 else torch.zeros_like(anchor)
        return centre + math.sqrt(s * self.prior_variance) * whitened

    def target(self, s: float) -> AnalyticTarget:
        """The log likelihood of whitened positions."""

        def log_likelihood(z: Tensor) -> Tensor:
            errors = self.targets - self.parameters(s, z) @ self.inputs.T
            scale = len(self.inputs) / 2 * math.log(2 * math.pi * self.noise_variance)
            return -errors.square().sum(-1) / (2 * self.noise_variance) - scale

        return AnalyticTarget(log_likelihood)

    def network_target(self, s: float) -> Target:
        """The same by a likelihood engine, which has data to split."""
        space = select_parameters(self.model)
        anchor = space.flatten(self.model)
        prior = anchored_prior(anchor, s, torch.full_like(anchor, self.prior_variance))
        forward = build_forward(self.model, space, self.inputs[:2])
        likelihood = sbmc.Gaussian(noise_variance=self.noise_variance)
        outputs = forward(anchor.unsqueeze(0), forward.prepare(self.inputs))[0]
        examples = Examples(self.inputs, likelihood.check(self.targets, outputs).detach())
        return target_of(forward, examples, likelihood, prior)


def sample_regression(s: float, sampler: HMC, particles: int = 400) -> Tensor:
    """Final states `(particles, dim)` of independent chains on the conjugate regression."""
    problem = conjugate_regression()
    posterior = sbmc.fit(
        problem.model,
        (problem.inputs, problem.targets),
        s=s,
        prior_variance=problem.prior_variance,
        likelihood=sbmc.Gaussian(noise_variance=problem.noise_variance),
        sampler=sampler,
        particles=particles,
        start="prior",
        seed=1,
        progress=False,
    )
    return posterior.positions[0]


def conjugate_regression(dim: int = 3, examples: int = 12) -> Regression:
    """Correlated inputs, few examples, an anchor that is not the mode: nothing is symmetric."""
    rng = torch.Generator().manual_seed(20)
    inputs = torch.randn(examples, dim, generator=rng, dtype=torch.float64)
    inputs = inputs + 0.7 * inputs[:, :1]
    truth = torch.linspace(-1, 2, dim, dtype=torch.float64)
    noise = torch.randn(examples, generator=rng, dtype=torch.float64)
    model = nn.Linear(dim, 1, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.linspace(1.5, -0.5, dim).unsqueeze(0))
    return Regression(model, inputs, inputs @ truth + 0.8 * noise, 0.64, 1.5)
