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
2023): the error is about of third order, so that a correction is one power of a ratio.
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
# Standard errors that are taken off a reading before a step size is shrunk for it, and before
# particles are put back for it.
ERRORS, ERRORS_TO_PUT_BACK = 3.0, 6.0
# A reading falls if it is below this part of the one before, and energy falls if it has lost this
# much for each coordinate.
COOLING, FALLING = 0.7, 0.01
# Factors of a step size.
LEAST_FACTOR, LARGE_GROWTH, SMALL_GROWTH = 0.5, 1.3, 1.05
# The mean square of a momentum at which a particle is too fast: this, and so much over the number
# of coordinates, since in a few of them it may be large by chance.
FAST, FAST_BY_CHANCE = 4.0, 40.0
# Energy errors count up to this, so that one particle cannot decide alone.
LARGEST_ERROR = 100.0
# A particle is put back if a step has missed its energy by more than this, and by more than a tenth
# for each coordinate: in equilibrium a coordinate has half a unit of either energy.
SMALLEST_LIMIT, LIMIT_EACH = 10.0, 0.1


class Excess(NamedTuple):
    """The largest reading in units of what is tolerated, less its standard errors."""

    likely: float  # less `ERRORS`: above 1 is too hot
    certain: float  # less `ERRORS_TO_PUT_BACK`


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
        self._sums = torch.zeros(2, islands, dtype=torch.float64, device=like.device)
        self._energies = torch.zeros(len(like), dtype=torch.float64, device=like.device)
        self.steps = 0

    def add(self, state: LangevinState, info: LangevinInfo) -> None:
        """Take in a step."""
        z, p, g = state.position, info.after_noise, state.gradient
        dot = torch.linalg.vecdot
        squares, pull = dot(z, z).double(), dot(z, g).double()
        along = dot(p, g).double().square() / dot(g, g).double().clamp(min=1e-30)
        self._sums += torch.stack([along, squares - pull]).view(2, *self._shape).mean(-1)
        self._energies += squares / 2 - state.log_likelihood
        self._squares += p.view(*self._shape, -1).square().mean(1)
        self.steps += 1

    def energies(self) -> Tensor:
        """U of each particle, a mean over the steps, `(islands * particles,)` float64."""
        return self._energies / self.steps

    def read(self) -> list[Heat]:
        """The readings of each island."""
        dim = self._squares.shape[1]
        squares = self._squares.double() / self.steps
        layers = torch.stack([part.mean(-1) for part in squares.split(self._blocks, -1)], -1)
        along, virial = self._sums / self.steps
        energy = self.energies().view(self._shape).mean(-1)
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
) -> Excess:
    """The largest of the readings in units of what is tolerated: above 1 is too hot.

    Args:
        heat: the readings.
        blocks: how many coordinates each layer has.
        particles: of the island.
        steps: of the window.
        arrived: which part of the heat of this step size has arrived, on average over the window.
        time: of the window, in units of 1/γ, within which momenta are forgotten.

    Returns:
        The excess, for two degrees of certainty.

    Examples:
        >>> calm = Heat(1.0, (1.0,), 1.0, 1.0, 0.5)
        >>> hot = calm._replace(along=200.0)
        >>> options = dict(particles=10, steps=8, arrived=1.0, time=8.0)
        >>> [excess_heat(each, [1000], **options).likely > 1 for each in (calm, hot)]
        [False, True]
    """
    independent = particles * max(1.0, min(time, float(steps)))
    part = max(arrived, LEAST_ARRIVED)

    readings = [
        (heat.average, sum(blocks), TOLERANCE_ON_AVERAGE),
        (heat.along, 1, TOLERANCE_ALONG),
        *((each, size, TOLERANCE_BY_LAYER) for each, size in zip(heat.layers, blocks, strict=True)),
    ]

    def largest(errors: float) -> float:
        return max(
            (temperature - 1 - errors * math.sqrt(2 / (count * independent))) / part / tolerance
            for temperature, count, tolerance in readings
        )

    return Excess(largest(ERRORS), largest(ERRORS_TO_PUT_BACK))


class Decision(NamedTuple):
    """What follows from a reading."""

    factor: float  # of the step size
    renew: bool = False  # whether momenta are drawn anew
    put_back: bool = False  # whether particles go back to where they were healthy
    healthy: bool = False  # whether where they are now is a place to go back to


def decide(
    excess: Excess, energy: float, likely_before: float | None, energy_before: float
) -> Decision:
    """What to do about the heat of an island.

    Args:
        excess: of the last steps; see `excess_heat`.
        energy: U per coordinate.
        likely_before: the likely excess of the steps before, if there was a reading.
        energy_before: U per coordinate before these steps.

    Returns:
        The decision.

    Examples:
        >>> decide(Excess(2.0, 1.0), 0.5, None, 0.5).factor < 1
        True
        >>> decide(Excess(2.0, 1.0), 0.5, 4.0, 0.5).factor  # it cools
        1.0
    """
    if excess.likely <= 1:
        return Decision(LARGE_GROWTH if excess.likely < 0.5 else SMALL_GROWTH, healthy=True)
    if energy_before - energy > FALLING:
        return Decision(1.0, renew=True, healthy=True)
    if likely_before is not None and excess.likely < COOLING * likely_before:
        return Decision(1.0, renew=True)
    factor = max(LEAST_FACTOR, excess.likely**-0.5)
    return Decision(factor, renew=True, put_back=excess.certain > FAR_TOO_HOT)


def too_fast(state: LangevinState, non_finite: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
    """Which particles have blown up, and which ones only have too much kinetic energy.

    A particle that falls from far out is fast as well; but one that has blown up goes up.

    Args:
        state: after a step.
        non_finite: which particles are not finite any more, `(particles,)` bool.
        reference: U where each particle was last healthy, `(particles,)`.

    Returns:
        Two masks `(particles,)`: particles that have to be put back, and particles whose momenta
        have to be drawn anew.
    """
    dim = state.position.shape[1]
    fast = state.momentum.square().mean(-1) > FAST + FAST_BY_CHANCE / dim
    if not bool((fast | non_finite).any()):
        return non_finite, fast  # as nearly always, and for nearly nothing
    potential = state.position.double().square().sum(-1) / 2 - state.log_likelihood
    # From an anchor U rises by a half for each coordinate; and a mini-batch shows it with noise,
    # which is large where U is.
    up = potential > reference + 2 * dim + FAST_BY_CHANCE + reference.abs() / 2
    blown = non_finite | (fast & up)
    return blown, fast & ~blown


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

    Examples:
        >>> factor_for_errors(torch.full((4,), 0.125), growth=3.0)  # a third power
        2.0
    """
    bounded = errors.nan_to_num(LARGEST_ERROR).clamp(-LARGEST_ERROR, LARGEST_ERROR)
    mean = max(float(bounded.square().mean()), 1e-12)
    return min(max(mean ** (-1 / 6), LEAST_FACTOR), growth)
