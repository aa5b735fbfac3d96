"""A step size for each particle: the island's, times a factor that its energy errors decide.

Particles of one island may sit where the posterior is much narrower than elsewhere. At the island's
step size they are rejected for ever, however long the run is. So each has a factor f ≤ 1 of it.

On all data the factor follows from the energy error e of each step, which is about of third order
in the step size: a particle whose error would be r times that of the others at the same step size
has the factor r^(−1/3). log e goes into a moving mean that begins with equal particles and
remembers some sixteen steps, so that few steps change little, and one blow-up does not decide.
Moves with a Metropolis test that tune the step size then correct the factor by how often they
accept the particle. Factors are frozen together with the island's step size.

Leapfrog becomes unstable all at once where a place is too narrow for its step, and there may be
such places that no particle had seen while steps were tuned. So every third frozen move of a
particle, unless it is a single leapfrog step, takes a third of its step. The rule knows the number
of the move, of the particle and of leapfrog steps, and no position: every move remains exact, and a
particle that is stuck can leave.
"""

from __future__ import annotations

import torch
from torch import Tensor

# What one step adds to the moving mean, and which part of a correction a single particle gets.
GAIN, SHARE = 1 / 16, 0.5
# Energy errors count between these: a smaller one is chance, and a larger one is a blow-up.
SMALLEST_ERROR, LARGEST_ERROR = 1e-3, 1e3
LEAST_FACTOR = 0.05
# Every so many frozen moves of a particle one is short, and this is the part of the step it takes.
CYCLE, SHORT_STEP = 3, 1 / 3


def factors_after_step(factors: Tensor, errors: Tensor) -> Tensor:
    """The factors of an island's particles after a step of the dynamics.

    Args:
        factors: f, `(particles,)` float64, with which the step was made.
        errors: its energy errors, `(particles,)`; those that are not finite count as large ones.

    Returns:
        New factors.

    Examples:
        >>> factors = torch.ones(3, dtype=torch.float64)
        >>> for _ in range(200):  # at equal steps, the third has eight times the errors
        ...     errors = (factors * torch.tensor([1.0, 1.0, 2.0])) ** 3 * 0.1
        ...     factors = factors_after_step(factors, errors)
        >>> [round(float(factor), 2) for factor in factors]
        [1.0, 1.0, 0.5]
    """
    errors = errors.double().abs().nan_to_num(LARGEST_ERROR).clamp(SMALLEST_ERROR, LARGEST_ERROR)
    shift = errors.log() - errors.log().mean()
    return _bounded(factors.log() - GAIN * shift / 3)


def factors_after_move(factors: Tensor, corrections: Tensor, gain: float) -> Tensor:
    """The factors after a move that tunes the step size.

    Args:
        factors: f, `(particles,)` float64, with which the move was made.
        corrections: by which factor each particle's acceptance asks to change its step.
        gain: which part of that is taken; less, the later the move.

    Returns:
        New factors.

    Examples:
        >>> ones = torch.ones(3, dtype=torch.float64)
        >>> factors = factors_after_move(ones, torch.tensor([1.3, 1.3, 0.5]), gain=1.0)
        >>> [round(float(factor), 2) for factor in factors]
        [1.0, 1.0, 0.62]
    """
    shift = corrections.double().log() - corrections.double().log().mean()
    return _bounded(factors.log() + SHARE * gain * shift)


def shortened(particles: int, move: int) -> Tensor:
    """The factors of one frozen move, which depend on no position.

    Args:
        particles: of the island.
        move: how many frozen moves there were before.

    Returns:
        Factors `(particles,)` float64: 1, or a third for each particle in turn.

    Examples:
        >>> [[round(float(each), 2) for each in shortened(3, move)] for move in (0, 1)]
        [[1.0, 1.0, 0.33], [1.0, 0.33, 1.0]]
    """
    short = (torch.arange(particles) + move) % CYCLE == CYCLE - 1
    return torch.where(short, SHORT_STEP, 1.0).double()


def _bounded(logs: Tensor) -> Tensor:
    """Factors whose median is 1, and none larger: half of the island has the island's step size."""
    return torch.exp(logs - logs.median()).clamp(LEAST_FACTOR, 1.0)
