"""The toy target: a posterior with two modes in one dimension, anchored and cold.

One noisy observation y of θ² + bθ, with the prior N(0, v):

    ℓ(θ) = −(y − θ² − bθ)² / (2σ²),   log π(θ) = ℓ(θ) − θ²/(2v) + const.

The sign of θ is all but lost, as the signs of a network's hidden units are, so that there are two
modes with a barrier between them; b makes one of them a little higher and the density skewed.

# Paper: a "simple toy example" without a formula. Here: the above, because it is the smallest
# target with what the paper's figures show: modes to be visited, and a barrier in between.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import require
from sbmc.prior.gaussian import AnchoredPrior, anchored_prior
from sbmc.target.target import Evaluation, Evaluations

OBSERVATION = 1.2  # y
SLOPE = 0.1  # b
NOISE = 0.75  # σ: leaves a barrier that chains cross often enough to count
PRIOR_VARIANCE = 1.0  # v


class Case(NamedTuple):
    """A member of one of the two families around the posterior: s = 1 and T = 1 are it.

    Attributes:
        family: `"s"` for SBMC(s), `"T"` for the cold posterior π^{1/T}.
        value: of s or T, in (0, 1].
    """

    family: str
    value: float

    @property
    def name(self) -> str:
        """As in metrics: `s.0.1`."""
        return f"{self.family}.{self.value:g}"

    @property
    def power(self) -> float:
        """λ, the exponent on the likelihood."""
        return 1 / self.value if self.family == "T" else 1.0

    def prior(self) -> AnchoredPrior:
        """N(α(s)·θ_MAP, s·v), or N(0, v) to the power 1/T, with its whitened coordinates."""
        require(self.family in ("s", "T"), "family", "'s' or 'T'", self.family)
        anchor = torch.tensor([find_mode()], dtype=torch.float64)
        variance = torch.full((1,), PRIOR_VARIANCE, dtype=torch.float64)
        if self.family == "s":
            return anchored_prior(anchor, self.value, variance)
        require(0 < self.value <= 1, "T", "in (0, 1]", self.value)
        return anchored_prior(anchor, 1.0, self.value * variance)


class ToyTarget:
    """ℓ(θ(z)) and its gradient in z, counted: what samplers ask of `sbmc.target.target.Target`.

    Args:
        case: decides the coordinates. Its power on the likelihood is the sampler's `temperature`.
    """

    def __init__(self, case: Case) -> None:
        self.prior = case.prior()
        self.evaluations = Evaluations()

    def __call__(self, positions: Tensor) -> Evaluation:
        """Log likelihood and gradient at whitened positions `(particles, 1)`."""
        self.evaluations.gradient += len(positions)
        theta = self.prior.to_parameters(positions)
        error = OBSERVATION - theta.square() - SLOPE * theta
        value = -error.square() / (2 * NOISE**2)
        slope = error * (2 * theta + SLOPE) / NOISE**2
        return Evaluation(value.sum(-1), slope * self.prior.scale)


def find_mode() -> float:
    """θ_MAP: the highest of the roots of the log posterior's derivative, which is a cubic."""
    # (y − θ² − bθ)(2θ + b)/σ² − θ/v = 0
    mismatch = np.poly1d([-1, -SLOPE, OBSERVATION]) * np.poly1d([2, SLOPE]) / NOISE**2
    roots = (mismatch - np.poly1d([1 / PRIOR_VARIANCE, 0])).roots
    real = roots[np.abs(roots.imag) < 1e-9].real
    return float(real[np.argmax(_log_likelihood(real) - real**2 / (2 * PRIOR_VARIANCE))])


def density(case: Case, grid: np.ndarray) -> np.ndarray:
    """The normalised density of a case.

    Args:
        case: which.
        grid: θ, evenly spaced, `(points,)`; it must hold all of the mass.

    Returns:
        π(θ), `(points,)`, whose trapezoid sum is 1.

    Examples:
        >>> grid = np.linspace(-3, 3, 601)
        >>> cold, warm = (density(Case("T", value), grid).max() for value in (0.5, 1.0))
        >>> bool(cold > warm)
        True
    """
    prior = case.prior()
    gap = (grid - float(prior.mean)) / float(prior.scale)
    log_density = case.power * _log_likelihood(grid) - gap**2 / 2
    weight = np.exp(log_density - log_density.max())
    return weight / np.trapezoid(weight, grid)


def _log_likelihood(theta: np.ndarray) -> np.ndarray:
    return -((OBSERVATION - theta**2 - SLOPE * theta) ** 2) / (2 * NOISE**2)
