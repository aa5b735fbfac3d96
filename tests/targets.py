"""Targets with known answers: a conjugate regression, a skewed density, a flat likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from scipy.integrate import cumulative_trapezoid
from torch import Tensor, nn

import sbmc
from sbmc import HMC
from sbmc.target import Evaluation, Evaluations


class AnalyticTarget:
    """A log likelihood as a function of whitened positions, with autograd for its gradient."""

    def __init__(self, log_likelihood: Callable[[Tensor], Tensor]) -> None:
        self.log_likelihood = log_likelihood
        self.evaluations = Evaluations()
        self.calls: list[int] = []

    def __call__(self, positions: Tensor) -> Evaluation:
        self.evaluations.gradient += len(positions)
        self.calls.append(len(positions))
        z = positions.detach().clone().requires_grad_()
        value = self.log_likelihood(z)
        (gradient,) = torch.autograd.grad(value.sum(), z, allow_unused=True)
        gradient = torch.zeros_like(z) if gradient is None else gradient
        return Evaluation(value.detach().double().clone(), gradient.clone())


def flat_target() -> AnalyticTarget:
    """No data: the posterior is the prior N(0, I)."""
    return AnalyticTarget(lambda z: 0.0 * z.sum(-1))


def skewed_log_likelihood(z: Tensor) -> Tensor:
    """Σ_d 3 z_d − 2 exp(z_d): with the prior, a density with a long tail to the left."""
    return (3 * z - 2 * z.exp()).sum(-1)


def skewed_cdf() -> Callable[[np.ndarray], np.ndarray]:
    """Distribution function of one coordinate of the skewed posterior, by quadrature."""
    grid = np.linspace(-8, 6, 20_001)
    log_density = 3 * grid - 2 * np.exp(grid) - grid**2 / 2
    density = np.exp(log_density - log_density.max())
    mass = np.concatenate([[0.0], cumulative_trapezoid(density, grid)])
    return lambda values: np.interp(values, grid, mass / mass[-1])


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
