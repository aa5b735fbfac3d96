"""What the self-tuning sampler carries along: particles, and what it notes of each island."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from sbmc.samplers.langevin import LangevinState
from sbmc.samplers.settling import (
    FEWEST_MOVES,
    LEAST_ACCEPTANCE,
    Moments,
    nested_rhat_of_particles,
)

# The log likelihood drifts if its mean changes, from the first half of the exact moves to the
# second, by more than it differs between particles, and by more than so many standard errors.
DRIFT_ERRORS = 4.0
# z·∇U per coordinate is 1 in equilibrium; outside these bounds particles are far from it.
LEAST_VIRIAL, LARGEST_VIRIAL = 0.25, 2.0


class AutoState(NamedTuple):
    """What the next step needs; the leading axis of every field is the particle."""

    position: Tensor  # (particles, dim), whitened
    momentum: Tensor  # (particles, dim)
    log_likelihood: Tensor  # (particles,) float64
    gradient: Tensor  # (particles, dim), of the log likelihood
    healthy: Tensor  # (particles, dim): where the particle was when it was last not too hot
    healthy_energy: Tensor  # (particles,) float64: U there, as mini-batches estimate it

    @property
    def dynamics(self) -> LangevinState:
        """The part that the dynamics change."""
        return LangevinState(*self[:4])

    @classmethod
    def at(cls, start: Tensor, momentum: Tensor) -> AutoState:
        """The state at `start`, with this momentum, before anything was evaluated."""
        value = start.new_zeros(len(start), dtype=torch.float64)
        gradient = torch.zeros_like(start)
        return cls(start.clone(), momentum, value, gradient, start.clone(), value.clone())


@dataclass
class AutoRun:
    """One island's progress and, at the end, its result.

    Attributes:
        step_size: in whitened units: of the dynamics, then of the exact moves.
        particles: of the island.
        epochs: evaluations with gradient per particle so far.
        steps: steps of the dynamics and exact moves made.
        draws: the final positions, `(particles, dim)`, whitened.
        acceptance: mean acceptance of each exact move, those that tune the step size included.
        leapfrog: leapfrog steps of each exact move.
        tuning_moves: how many of the exact moves have tuned the step size.
        non_finite: steps and moves that came to something that is not finite.
        outcome: `completed`, `failed`, or `running`.
        message: why it failed.
        forward_epochs: always 0.
        sampling_steps: exact moves at a frozen step size; or, if there are none, steps on
            mini-batches in the last half of the run.
        accepted_sum: acceptance probabilities of each particle, summed over the moves at a frozen
            step size that are not short, `(particles,)` float64.
        full_moves: how many those are, `(particles,)` float64.
        restarted: which particles were put back in the last half of the run, `(particles,)` bool.
        values: log likelihoods after each move at a frozen step size, `(moves, particles)`.
        prediction_mean: means of the watched predictions over these moves, `(particles,
            predictions)` float64; None if they are not watched.
        prediction_squares: sums of their squared deviations from the mean, likewise.
        settled: whether predictions had settled, after which one more move is made; None if nobody
            looks, or if there was nothing to tell by.
        virial: z·∇U per coordinate, which is 1 in equilibrium.
        coordinates: of all particles together, which decide the virial's standard error.
        arrived: which part of the heat of this step size has arrived in the momenta.
        excess: the last reading of the heat, if there was one.
        energy: U per coordinate at that reading, or where particles were put back to.
        log_sizes: sum of the logarithms of step sizes, for their geometric mean.
        sizes: how many these are.
        factors: of the step size for each particle, `(particles,)` float64; see `particle_steps`.
    """

    step_size: float
    particles: int
    epochs: int = 0
    steps: int = 0
    draws: list[Tensor] = field(default_factory=list)
    acceptance: list[float] = field(default_factory=list)
    leapfrog: list[int] = field(default_factory=list)
    tuning_moves: int = 0
    non_finite: int = 0
    outcome: str = "running"
    message: str = ""
    forward_epochs: int = 0
    sampling_steps: int = 0
    accepted_sum: Tensor | None = None
    full_moves: Tensor | None = None
    restarted: Tensor | None = None
    values: Tensor | None = None
    prediction_mean: Tensor | None = None
    prediction_squares: Tensor | None = None
    settled: bool | None = None
    virial: float | None = None
    coordinates: int = 1
    arrived: float = 0.0
    excess: float | None = None
    energy: float = 0.0
    log_sizes: float = 0.0
    sizes: int = 0
    factors: Tensor | None = None

    @property
    def particle_steps(self) -> Tensor:
        """The step size of each particle, `(particles,)` float64."""
        return self.step_size * self.particle_factors

    @property
    def particle_factors(self) -> Tensor:
        """Step sizes over the island's, `(particles,)` float64; ones before any is known."""
        known = self.factors
        return torch.ones(self.particles, dtype=torch.float64) if known is None else known

    @property
    def particle_acceptance(self) -> Tensor | None:
        """Mean acceptance of each particle in full moves at a frozen step size; None without."""
        if self.accepted_sum is None or self.sampling_steps == 0:
            return None
        if self.full_moves is None:
            return self.accepted_sum / self.sampling_steps
        # One that has made a short move and no other is not judged.
        mean = self.accepted_sum / self.full_moves.clamp(min=1)
        return torch.where(self.full_moves > 0, mean, 1.0)

    @property
    def sampling_acceptance(self) -> float:
        """Mean acceptance at a frozen step size (of all exact moves, if none was frozen)."""
        after = self.acceptance[self.tuning_moves :] or self.acceptance
        return sum(after) / len(after) if after else math.nan

    @property
    def restarts(self) -> int:
        """How many particles were put back in the last half of the run."""
        return 0 if self.restarted is None else int(self.restarted.sum())

    @property
    def relaxing(self) -> str:
        """In words, if the island has visibly not come to equilibrium."""
        return drift_in_words(self.values) or virial_in_words(self.virial, self._error)

    @property
    def frozen_moves(self) -> int:
        """Exact moves at a frozen step size."""
        return 0 if self.values is None else len(self.values)

    @property
    def settling(self) -> float | None:
        """The settling figure: nested R-hat of predictions or log likelihood, the larger one.

        None if nobody looks, and before two moves of two particles.
        """
        if self.settled is None or self.values is None or self.frozen_moves < 2:
            return None
        deviations = self.values - self.values.mean(0)
        quantities = [Moments(self.values.mean(0)[:, None], deviations.square().sum(0)[:, None])]
        if self.prediction_mean is not None and self.prediction_squares is not None:
            quantities.append(Moments(self.prediction_mean, self.prediction_squares))
        figures = [nested_rhat_of_particles(each, self.frozen_moves) for each in quantities]
        known = [figure for figure in figures if figure is not None]
        return max(known, default=None)

    def has_settled(self, threshold: float) -> bool:
        """Whether predictions have settled.

        Args:
            threshold: of the settling figure.

        Returns:
            False before there were enough moves, while the figure is above the threshold, while a
            particle is stuck, and while the island is visibly not in equilibrium.
        """
        acceptance = self.particle_acceptance
        if self.frozen_moves < FEWEST_MOVES or acceptance is None:
            return False
        figure = self.settling
        if figure is None or not figure < threshold:
            return False
        return float(acceptance.min()) >= LEAST_ACCEPTANCE and not self.relaxing

    def note_predictions(self, values: Tensor) -> None:
        """Note the watched predictions after the last move, `(particles, predictions)`."""
        if self.prediction_mean is None or self.prediction_squares is None:
            moments = Moments.of_one(values)
        else:
            before = Moments(self.prediction_mean, self.prediction_squares)
            moments = before.with_draw(values, self.frozen_moves)
        self.prediction_mean, self.prediction_squares = moments

    def note_move(self, acceptance: Tensor, full: Tensor, values: Tensor) -> None:
        """Count a move at a frozen step size; in new tensors, since snapshots hold the old ones.

        Args:
            acceptance: of each particle, `(particles,)` float64.
            full: for which particles the move was not a short one, `(particles,)` bool. Short moves
                are accepted nearly always, and would hide a particle that is rejected otherwise.
            values: log likelihoods after the move, `(particles,)`.
        """
        counted = full.to(acceptance)
        if self.sampling_steps == 0 or self.accepted_sum is None or self.values is None:
            self.sampling_steps = 0
            self.accepted_sum, self.full_moves = acceptance * counted, counted
            self.values = values.clone().unsqueeze(0)
        else:
            assert self.full_moves is not None
            self.accepted_sum = self.accepted_sum + acceptance * counted
            self.full_moves = self.full_moves + counted
            self.values = torch.cat([self.values, values.unsqueeze(0)])
        self.sampling_steps += 1

    def note_restarts(self, rows: Tensor) -> None:
        """Note which particles were put back in the last half, `(particles,)` bool."""
        before = torch.zeros_like(rows) if self.restarted is None else self.restarted
        self.restarted = before | rows

    @property
    def _error(self) -> float:
        """Standard error of the virial, whose coordinates have the variance 2."""
        return math.sqrt(2 / self.coordinates)


def drift_in_words(values: Tensor | None) -> str:
    """Whether log likelihoods have drifted over some moves, and how far; empty if they have not.

    Args:
        values: `(moves, particles)`, or None.

    Returns:
        A clause, or nothing. It takes four moves and three particles to tell.

    Examples:
        >>> rising = torch.arange(8.0).unsqueeze(1) + torch.tensor([0.0, 0.1, 0.2])
        >>> drift_in_words(rising)
        'the log likelihood rose by 4.0 over the exact moves, 40.0 times its spread'
        >>> drift_in_words(torch.tensor([[0.0, 1, 2]] * 8))
        ''
    """
    if values is None or values.shape[0] < 4 or values.shape[1] < 3:
        return ""
    half = len(values) // 2
    change = values[-half:].mean(0) - values[:half].mean(0)
    drift, error = float(change.mean()), float(change.std()) / math.sqrt(len(change))
    spread = float(values.std(1).mean())
    if not abs(drift) > max(spread, DRIFT_ERRORS * error):
        return ""
    direction = "rose" if drift > 0 else "fell"
    times = abs(drift) / max(spread, 1e-12)
    return (
        f"the log likelihood {direction} by {abs(drift):.1f} over the exact moves, "
        f"{times:.1f} times its spread"
    )


def virial_in_words(virial: float | None, error: float) -> str:
    """Whether z·∇U shows that particles are far from equilibrium; empty if it does not.

    Args:
        virial: z·∇U per coordinate, if it was measured.
        error: its standard error in equilibrium.

    Returns:
        A clause, or nothing.

    Examples:
        >>> virial_in_words(0.1, 0.01)
        'z·∇U is 0.10 per coordinate, and 1 in equilibrium'
    """
    if virial is None or LEAST_VIRIAL - 3 * error <= virial <= LARGEST_VIRIAL + 3 * error:
        return ""
    return f"z·∇U is {virial:.2f} per coordinate, and 1 in equilibrium"
