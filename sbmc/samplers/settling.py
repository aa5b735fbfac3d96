"""Whether predictions have settled: nested R-hat of particles, from their moments over moves.

Each particle of an island is a superchain of one chain, and every exact move adds a draw. Nested
R-hat (Margossian et al. 2024) is large as long as particles differ from one another by more than
each of them differs from its own past: they have not forgotten where they came from. It is taken of
the predictions on a few rows and of the log likelihood, and the larger one is the *settling
figure*. An island has settled when the figure is small, there were enough moves, every particle was
accepted now and then, and nothing shows that the island is far from equilibrium.

The figure follows from sums over the moves, which do not grow with them, and from nothing that is
random or depends on other islands: a run that is resumed, or folded with others, stops where it
would have stopped.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from sbmc.target.target import Target

# Chosen on development sets (docs/auto_hmc.md). Independent draws have √(1 + 1/moves) on average,
# which is 1.08 after six moves.
SETTLED = 1.1
FEWEST_MOVES = 6
# Every particle has to be accepted so often, as the verdict on the posterior asks of almost all.
LEAST_ACCEPTANCE = 0.2
# Rows whose predictions are watched: so many, or as many of the data as cost little beside a move.
MOST_ROWS, FEWEST_ROWS, SHARE_OF_ROWS = 64, 8, 8
# Numbers that are watched of all rows together, for models with very many outputs.
MOST_QUANTITIES = 1_024


class Moments(NamedTuple):
    """Mean and sum of squared deviations over draws, `(particles, quantities)` float64 each."""

    mean: Tensor
    squares: Tensor

    def with_draw(self, values: Tensor, draws: int) -> Moments:
        """The moments after another draw (Welford's recursion); new tensors.

        Args:
            values: the draw, `(particles, quantities)`.
            draws: how many there are with this one.

        Examples:
            >>> first = Moments.of_one(torch.tensor([[1.0]]))
            >>> [float(each) for each in first.with_draw(torch.tensor([[3.0]]), 2)]
            [2.0, 2.0]
        """
        values = values.double()
        mean = self.mean + (values - self.mean) / draws
        return Moments(mean, self.squares + (values - self.mean) * (values - mean))

    @classmethod
    def of_one(cls, values: Tensor) -> Moments:
        """The moments of a single draw."""
        values = values.double()
        return cls(values.clone(), torch.zeros_like(values))


def nested_rhat_of_particles(moments: Moments, draws: int) -> float | None:
    """Nested R-hat with each particle as a superchain of its own, pooled over quantities.

    With the means θ̄_k of K particles over N draws, summed over quantities,

        B = Σ_k (θ̄_k − θ̄)² / (K−1)
        W = (1/K) Σ_k Σ_n (θ_nk − θ̄_k)² / (N−1)
        nested R-hat = √(1 + B / W).

    Sums over quantities let those count that vary most. With one quantity it is
    `sbmc.diagnostics.nested_rhat` of draws `(particles, 1, draws)`.

    Args:
        moments: of the draws.
        draws: N.

    Returns:
        Nested R-hat; infinite if no particle moves, None for fewer than two particles or draws, if
        nothing varies at all, or if something is not finite.

    Examples:
        >>> moments = Moments(torch.tensor([[0.0], [1.0]]), torch.tensor([[3.0], [1.0]]))
        >>> nested_rhat_of_particles(moments, draws=5)  # B = 1/2, W = (3/4 + 1/4) / 2
        1.4142135623730951
    """
    if len(moments.mean) < 2 or draws < 2:
        return None
    between = float(moments.mean.var(0).sum())
    within = float((moments.squares / (draws - 1)).mean(0).sum())
    if not math.isfinite(between + within) or between == within == 0:
        return None
    return math.sqrt(1 + between / within) if within > 0 else math.inf


def watched_rows(examples: int) -> Tensor:
    """The rows whose predictions are watched, evenly spread over the data.

    Examples:
        >>> len(watched_rows(5)), len(watched_rows(200)), len(watched_rows(10_000))
        (5, 25, 64)
    """
    count = min(examples, MOST_ROWS, max(FEWEST_ROWS, examples // SHARE_OF_ROWS))
    return torch.arange(count) * examples // count


def watched_predictions(target: Target, positions: Tensor) -> Tensor | None:
    """Predictions on the watched rows, which are training rows.

    Args:
        target: log likelihood and gradient; one that has no engine has no predictions.
        positions: whitened, `(particles, dim)`.

    Returns:
        Class probabilities, or outputs where the likelihood is none of classes, `(particles,
        quantities)` float64; None without an engine.
    """
    engine = getattr(target, "engine", None)
    if engine is None:
        return None
    rows = watched_rows(len(engine.examples))
    return engine.predictions(target.prior.to_parameters(positions), rows, MOST_QUANTITIES)
