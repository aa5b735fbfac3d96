"""Exact stationary moments of samplers that reject nothing, on a Gaussian in one dimension.

There a step is an affine map of the state plus normal noise. Both are read off the real `step`, by
calling it at unit vectors with unit noise; the moments that a random sequence of steps leaves
invariant then solve a linear system. Nothing is simulated, so there are no false alarms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from sbmc.target.target import Evaluation

# Four examples, log likelihood −a (z − m)²/2 each: nothing about them is symmetric.
CURVATURES = (0.5, 3.0, 1.0, 2.0)
CENTRES = (1.0, -2.0, 0.5, 2.0)
PRECISION = 1 + sum(CURVATURES)
MEAN = sum(a * m for a, m in zip(CURVATURES, CENTRES, strict=True)) / PRECISION

Batch = tuple[int, ...]


class FixedNoise:
    """Hands out given normal numbers, one column `(particles, 1)` after another."""

    def __init__(self, columns: Sequence[torch.Tensor]) -> None:
        self.columns = list(columns)

    def normal(self, dim: int, dtype: torch.dtype) -> torch.Tensor:
        return self.columns.pop(0).to(dtype)


class Moments(NamedTuple):
    """Relative to the target: of mean, in its standard deviations, and of the variance."""

    mean: float
    variance: float
    momentum: float


def estimate(batch: Batch):
    """Log likelihood and gradient of four examples, estimated from those of `batch`."""
    scale = len(CURVATURES) / len(batch)

    def evaluate(z: torch.Tensor) -> Evaluation:
        gaps = [(CURVATURES[i], z - CENTRES[i]) for i in batch]
        value = sum(-a / 2 * gap.square().sum(-1) for a, gap in gaps)
        return Evaluation(scale * value, scale * sum(-a * gap for a, gap in gaps))

    return evaluate


def affine_map(step: Callable, state: type, draws: int, batch: Batch) -> tuple[np.ndarray, ...]:
    """The matrix of a step on (state, 1), and the covariance of its noise.

    Args:
        step: `(rng, state, estimate) -> (state, info)`.
        state: its type; every field is `(particles, 1)`.
        draws: normal numbers that a step takes.
        batch: the examples it looks at.
    """
    size = len(state._fields)
    # Rows: the origin, the unit vectors of the state, the unit vectors of the noise.
    rows = 1 + size + draws
    fields = [torch.zeros(rows, 1, dtype=torch.float64) for _ in range(size)]
    for k, field in enumerate(fields):
        field[1 + k] = 1
    columns = [torch.zeros(rows, 1, dtype=torch.float64) for _ in range(draws)]
    for k, column in enumerate(columns):
        column[1 + size + k] = 1
    noise = FixedNoise(columns)
    moved, _ = step(noise, state(*fields), estimate(batch))
    assert not noise.columns, "a step took fewer random numbers than was said"
    ends = torch.cat(list(moved), -1).numpy()
    linear = np.eye(size + 1)
    linear[:size, size] = ends[0]
    linear[:size, :size] = (ends[1 : 1 + size] - ends[0]).T
    spread = np.zeros((size + 1, size + 1))
    arms = (ends[1 + size :] - ends[0]).T
    spread[:size, :size] = arms @ arms.T
    return linear, spread


def orders(batch_size: int, *, paired: bool = False) -> list[list[Batch]]:
    """Every way to go through the examples once, or with `paired` there and back."""
    found = []
    for order in itertools.permutations(range(len(CURVATURES))):
        parts = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
        found.append(parts + parts[::-1] if paired else parts)
    return found


def stationary(step: Callable, state: type, draws: int, passes: Iterable[list[Batch]]) -> Moments:
    """The moments that hold after each of a series of passes, every one drawn from `passes`."""
    passes = list(passes)
    size = len(state._fields) + 1
    maps: dict[Batch, tuple[np.ndarray, ...]] = {}
    pair, spread = np.zeros((size**2, size**2)), np.zeros((size, size))
    for each in passes:
        whole, noise = np.eye(size), np.zeros((size, size))
        for batch in each:
            if batch not in maps:
                maps[batch] = affine_map(step, state, draws, batch)
            linear, added = maps[batch]
            whole, noise = linear @ whole, linear @ noise @ linear.T + added
        pair += np.kron(whole, whole) / len(passes)
        spread += noise / len(passes)
    # E[x xᵀ] = Σ T E[x xᵀ] Tᵀ + N, with the last entry of x always 1.
    system, right = np.eye(size**2) - pair, spread.flatten()
    system[-1], right[-1] = 0, 1
    system[-1, -1] = 1
    second = np.linalg.solve(system, right).reshape(size, size)
    mean, variance = second[0, -1], second[0, 0] - second[0, -1] ** 2
    momentum = second[1, 1] - second[1, -1] ** 2 if size == 3 else math.nan
    return Moments((mean - MEAN) * math.sqrt(PRECISION), variance * PRECISION - 1, momentum - 1)


def order_of(bias: Callable[[float], float], size: float) -> float:
    """k, if the bias goes like the k-th power of the step size near `size`."""
    return math.log2(abs(bias(size) / bias(size / 2)))
