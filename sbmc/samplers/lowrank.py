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
from sbmc.target.target import Evaluation, Target

# Length of the finite difference, in units of the prior's standard deviation.
DIFFERENCE = 0.02
# Groups of particles with random vectors of their own: eight times as many vectors as directions.
GROUPS = 8
TINY = 1e-30


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
    rng: IslandNoise, position: Tensor, evaluation: Evaluation, target: Target, rank: int
) -> LowRank:
    """Find the stiffest directions of each island by two passes of block power iteration.

    A pass multiplies `rank` vectors by the Hessian of the negative log likelihood at every
    particle, each by one finite difference of gradients. The first pass takes random vectors, other
    ones in each of a few groups of particles; the directions that stand out of all products go into
    the second, which says how stiff they are.

    The particles of an island share the preconditioner, as they share a step size. A preconditioner
    that each estimated alone, from few random vectors, now and then missed a stiff direction, and
    the step size that suited the others was then unstable for that chain.

    Args:
        rng: for the first vectors.
        position: whitened, `(particles, dim)`.
        evaluation: the evaluation at `position`.
        target: log likelihood and gradient.
        rank: how many directions.

    Returns:
        The preconditioner. It costs `2 * rank` evaluations for each particle.
    """
    dim, each, islands = position.shape[1], rng.particles, len(rng.generators)
    noise = rng.normal(dim * rank, position.dtype).view(islands, each, dim, rank)
    groups = min(each, GROUPS)
    group = torch.arange(each, device=position.device) % groups
    vectors = torch.linalg.qr(noise[:, :groups])[0][:, group].flatten(0, 1)
    product = _hessian_times(vectors, position, evaluation, target)
    # Every particle has the same weight, however steep the likelihood is at its start.
    votes = product / product.square().sum((-2, -1), keepdim=True).sqrt().clamp(min=TINY)
    votes = votes.view(islands, each, dim, -1)
    summed = votes.new_zeros(islands, groups, *votes.shape[2:]).index_add_(1, group, votes)
    stacked = summed.permute(0, 2, 1, 3).flatten(2)
    basis = torch.linalg.svd(stacked, full_matrices=False)[0][..., :rank]
    directions = basis.repeat_interleave(each, 0)
    product = _hessian_times(directions, position, evaluation, target)
    small = directions.mT @ product
    small = ((small + small.mT) / 2).view(islands, each, *small.shape[1:])
    rotation = torch.linalg.eigh(small.median(1).values)[1]
    curvature = (rotation.mT.unsqueeze(1) @ small @ rotation.unsqueeze(1)).diagonal(
        dim1=-2, dim2=-1
    )
    # Where the likelihood is not concave, the prior alone gives the scale.
    stretch = (1 + curvature.median(1).values.clamp(min=0)).rsqrt() - 1
    directions = (basis @ rotation).repeat_interleave(each, 0).contiguous()
    return LowRank(directions, stretch.repeat_interleave(each, 0))


def _hessian_times(
    directions: Tensor, position: Tensor, evaluation: Evaluation, target: Target
) -> Tensor:
    particles, dim, rank = directions.shape
    moved = position.unsqueeze(1) + DIFFERENCE * directions.mT
    gradient = target(moved.reshape(-1, dim)).gradient.view(particles, rank, dim)
    product = ((evaluation.gradient.unsqueeze(1) - gradient) / DIFFERENCE).mT
    # An island whose start is not finite fails later, and must not stop the others.
    return product.nan_to_num(0.0, 0.0, 0.0)
