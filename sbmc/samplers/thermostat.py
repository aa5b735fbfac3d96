"""Step sizes from how hot Langevin dynamics run: heat on mini-batches, energy errors on all data.

In equilibrium every coordinate has the kinetic temperature E[p²] = 1 and the virial
E[z ∂U/∂z] = 1. The noise of mini-batches, or a step size that is too large, heats momenta above
that. The heat is not spread evenly: nearly all of it is in the few directions that the data hold,
and a mean over all coordinates hardly shows it. So it is read on average, by layer, and along the
gradient of the log likelihood g, as (p·g)²/‖g‖², where it is largest.

Heat that a step size brings arrives only within a time of 1/(2γ), so that readings are divided by
the part that has arrived; and momenta stay hot for as long after a step size was shrunk. A
thermostat that forgot this would shrink it again and again, down to nothing. Here momenta are
drawn anew when a step size is shrunk, and it is not shrunk further while readings fall, or while
particles fall in energy, which heats them too.

On all data there is no such noise, and the energy error of every step is known. The step size is
steered so that its mean square is 1, as the tuner of microcanonical dynamics has it (Robnik et al.,
2023): the error is of third order, so that a correction is one power of a ratio.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from sbmc.samplers.langevin import LangevinInfo, LangevinState

# Heat above 1 that is left alone on average, by layer and along the gradient. While particles
# travel, what counts is how far they come: what is hot along the gradient is cooled again by
# smaller steps and by exact moves, in a few of them. Measured; see docs/auto_hmc.md.
TOLERANCE_ON_AVERAGE, TOLERANCE_BY_LAYER, TOLERANCE_ALONG = 0.1, 10.0, 40.0
# A reading counts for no less than this part of its equilibrium, however early it is taken.
LEAST_ARRIVED = 0.2
# Beyond this excess the particles go back to where they were healthy.
FAR_TOO_HOT = 4.0
# A reading falls if it is below this part of the one before, and energy falls if it has lost this
# much for each coordinate.
COOLING, FALLING = 0.7, 0.01
# Factors of a step size.
LEAST_FACTOR, LARGE_GROWTH, SMALL_GROWTH = 0.5, 1.3, 1.05
# The mean square of a momentum at which a particle has blown up.
BLOWN_UP = 4.0
# Energy errors count up to this, so that one particle cannot decide alone.
LARGEST_ERROR = 100.0
# A particle is put back if a step has missed its energy by more than this, and by more than a tenth
# for each coordinate: in equilibrium a coordinate has half a unit of either energy.
SMALLEST_LIMIT, LIMIT_EACH = 10.0, 0.1


class Heat(NamedTuple):
    """Readings of one island over a few steps; temperatures and virial are 1 in equilibrium."""

    average: float
    layers: tuple[float, ...]
    along: float  # the gradient
    virial: float  # z·∇U per coordinate
    energy: float  # U per coordinate


class HeatMeter:
    """Adds up what steps on mini-batches show of the heat of several islands.

    Args:
        islands: how many.
        particles: of each island.
        blocks: how many coordinates each layer has.
        like: a tensor `(islands * particles, dim)`, for its type and device.
    """

    def __init__(self, islands: int, particles: int, blocks: Sequence[int], like: Tensor) -> None:
        self._shape = islands, particles
        self._blocks = list(blocks)
        self._squares = like.new_zeros(islands, like.shape[1])
        self._sums = torch.zeros(3, islands, dtype=torch.float64, device=like.device)
        self.steps = 0

    def add(self, state: LangevinState, info: LangevinInfo) -> None:
        """Take in a step."""
        z, p, g = state.position, info.after_noise, state.gradient
        dot = torch.linalg.vecdot
        squares, pull = dot(z, z).double(), dot(z, g).double()
        along = dot(p, g).double().square() / dot(g, g).double().clamp(min=1e-30)
        values = torch.stack([along, squares - pull, squares / 2 - state.log_likelihood])
        self._sums += values.view(3, *self._shape).mean(-1)
        self._squares += p.view(*self._shape, -1).square().mean(1)
        self.steps += 1

    def read(self) -> list[Heat]:
        """The readings of each island."""
        dim = self._squares.shape[1]
        squares = self._squares.double() / self.steps
        layers = torch.stack([part.mean(-1) for part in squares.split(self._blocks, -1)], -1)
        along, virial, energy = self._sums / self.steps
        return [
            Heat(*each)
            for each in zip(
                squares.mean(-1).tolist(),
                map(tuple, layers.tolist()),
                along.tolist(),
                (virial / dim).tolist(),
                (energy / dim).tolist(),
                strict=True,
            )
        ]


def excess_heat(
    heat: Heat, blocks: Sequence[int], *, particles: int, steps: int, arrived: float, time: float
) -> float:
    """The largest of the readings in units of what is tolerated: above 1 is too hot.

    Args:
        heat: the readings.
        blocks: how many coordinates each layer has.
        particles: of the island.
        steps: of the window.
        arrived: which part of the heat of this step size has arrived, on average over the window.
        time: of the window, in units of 1/γ, within which momenta are forgotten.

    Returns:
        The excess. Twice the standard error of a reading is taken off before it counts.

    Example:
        >>> calm = Heat(1.0, (1.0,), 1.0, 1.0, 0.5)
        >>> hot = calm._replace(along=200.0)
        >>> options = dict(particles=10, steps=8, arrived=1.0, time=8.0)
        >>> [excess_heat(each, [1000], **options) > 1 for each in (calm, hot)]
        [False, True]
    """
    independent = particles * max(1.0, min(time, float(steps)))
    part = max(arrived, LEAST_ARRIVED)

    def excess(temperature: float, count: float, tolerance: float) -> float:
        error = math.sqrt(2 / (count * independent))
        return (temperature - 1 - 2 * error) / part / tolerance

    readings = [
        excess(heat.average, sum(blocks), TOLERANCE_ON_AVERAGE),
        excess(heat.along, 1, TOLERANCE_ALONG),
    ]
    readings += [
        excess(temperature, size, TOLERANCE_BY_LAYER)
        for temperature, size in zip(heat.layers, blocks, strict=True)
    ]
    return max(readings)


class Decision(NamedTuple):
    """What follows from a reading."""

    factor: float  # of the step size
    renew: bool  # whether momenta are drawn anew
    put_back: bool  # whether particles go back to where they were healthy


def decide(
    excess: float, energy: float, excess_before: float | None, energy_before: float | None
) -> Decision:
    """What to do about the heat of an island.

    Args:
        excess: of the last steps; see `excess_heat`.
        energy: U per coordinate.
        excess_before: the same of the steps before, if there was a reading.
        energy_before: the same.

    Returns:
        The decision. A reading that is not too hot leaves particles healthy where they are.

    Example:
        >>> decide(2.0, 0.5, None, None)
        Decision(factor=0.7071067811865475, renew=True, put_back=False)
        >>> decide(2.0, 0.5, 4.0, 0.5)  # it cools
        Decision(factor=1.0, renew=True, put_back=False)
    """
    if excess <= 1:
        return Decision(LARGE_GROWTH if excess < 0.5 else SMALL_GROWTH, False, False)
    cooling = excess_before is not None and excess < COOLING * excess_before
    falling = energy_before is not None and energy_before - energy > FALLING
    if cooling or falling:
        return Decision(1.0, True, False)
    return Decision(max(LEAST_FACTOR, excess**-0.5), True, excess > FAR_TOO_HOT)


def error_limit(dim: int) -> float:
    """The energy error of one step beyond which a particle was thrown out."""
    return max(SMALLEST_LIMIT, LIMIT_EACH * dim)


def factor_for_errors(errors: Tensor, growth: float) -> float:
    """The factor of a step size that would bring the mean square energy error of a step to 1.

    Args:
        errors: energy errors of an island's particles `(particles,)`; those that are not finite
            count as large ones.
        growth: the largest factor.

    Returns:
        The factor, at least 1/2.

    Example:
        >>> factor_for_errors(torch.full((4,), 0.125), growth=3.0)  # a third power
        2.0
    """
    bounded = errors.nan_to_num(LARGEST_ERROR).clamp(-LARGEST_ERROR, LARGEST_ERROR)
    mean = max(float(bounded.square().mean()), 1e-12)
    return min(max(mean ** (-1 / 6), LEAST_FACTOR), growth)
