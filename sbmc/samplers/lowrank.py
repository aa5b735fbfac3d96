"""A low-rank preconditioner: the few stiff directions of the likelihood, slowed down to the rest.

The step size of Hamiltonian dynamics is bounded by the narrowest direction of the target, and in
whitened coordinates few directions are much narrower than the prior. With orthonormal directions
U and the likelihood's curvatures λ along them, the linear map

    B = I + U (diag(1 / sqrt(1 + λ)) − I) Uᵀ

makes those directions as wide as the others. HMC on u = B⁻¹ z is HMC with the mass matrix B⁻²: the
target stays the same whatever U and λ are, as long as they do not change with the position.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from sbmc.samplers.noise import IslandNoise
from sbmc.target import Evaluation, Target

# Length of the finite difference, in units of the prior's standard deviation.
DIFFERENCE = 0.02
PASSES = 2


class LowRank(NamedTuple):
    """The map B of each particle; rank 0 is the identity."""

    directions: Tensor  # (particles, dim, rank), orthonormal columns
    stretch: Tensor  # (particles, rank): 1 / sqrt(1 + λ) − 1

    def __call__(self, vectors: Tensor) -> Tensor:
        """B times `(particles, dim)`; B is symmetric."""
        if self.stretch.shape[1] == 0:
            return vectors
        along = torch.bmm(self.directions.mT, vectors.unsqueeze(-1)) * self.stretch.unsqueeze(-1)
        return vectors + torch.bmm(self.directions, along).squeeze(-1)


def identity(position: Tensor) -> LowRank:
    """No preconditioning of particles at `position` `(particles, dim)`."""
    return LowRank(position.new_empty(*position.shape, 0), position.new_empty(len(position), 0))


def estimate(
    rng: IslandNoise, position: Tensor, here: Evaluation, target: Target, rank: int
) -> LowRank:
    """Find the stiffest directions at each particle by two passes of block power iteration.

    A pass multiplies `rank` vectors by the Hessian of the negative log likelihood, each by one
    finite difference of gradients.

    Args:
        rng: for the first vectors.
        position: whitened, `(particles, dim)`.
        here: the evaluation at `position`.
        target: log likelihood and gradient.
        rank: how many directions.

    Returns:
        The preconditioner. It costs `2 * rank` evaluations for each particle.
    """
    particles, dim = position.shape
    noise = rng.normal(dim * rank, position.dtype).view(particles, dim, rank)
    directions = torch.linalg.qr(noise)[0]
    product = directions
    for _ in range(PASSES):
        directions = torch.linalg.qr(product)[0]
        product = _hessian_times(directions, position, here, target)
    small = directions.mT @ product
    curvature, rotation = torch.linalg.eigh((small + small.mT) / 2)
    # Where the likelihood is not concave, the prior alone gives the scale.
    stretch = (1 + curvature.clamp(min=0)).rsqrt() - 1
    return LowRank((directions @ rotation).contiguous(), stretch)


def _hessian_times(
    directions: Tensor, position: Tensor, here: Evaluation, target: Target
) -> Tensor:
    particles, dim, rank = directions.shape
    moved = position.unsqueeze(1) + DIFFERENCE * directions.mT
    gradient = target(moved.reshape(-1, dim)).gradient.view(particles, rank, dim)
    return ((here.gradient.unsqueeze(1) - gradient) / DIFFERENCE).mT
