"""Perturbations of inputs: rows off the data, at which a student learns how unsure its teacher is.

Every row is changed in one of these ways, each with a strength of its own:

    interpolated   a + t (b − a), between two rows
    extrapolated   a + t (a − b), beyond a row, away from another
    swapped        a share of the features taken from one other row
    shuffled       a share of the features taken from other rows, each feature from a row of its own
    rescaled       t·a, with t from 0 to 2
    translated     pictures alone: moved by up to a fourteenth of their sides, around the edge
    disturbed      a + t (b − c) with the features of b − c in another order

Three in ten of the others are disturbed, too. All of it is made from the rows themselves, so that
it has their units and their marginal distributions, and no kind of noise has to be chosen.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# How far rows are disturbed, in differences of two rows; and how many of the other rows are.
DISTURBANCE, DISTURBED_SHARE = 1.5, 0.3
# Pictures are moved by up to a side divided by this.
TRANSLATION = 14

# (all rows, numbers of those to change, generator) -> the changed rows
Perturbation = Callable[[Tensor, Tensor, torch.Generator], Tensor]


def perturbed(inputs: Tensor, rng: torch.Generator) -> Tensor:
    """Change every row in one of the ways that the top of this module lists.

    Args:
        inputs: `(rows, ...)`, numbers; rows of three axes are taken for pictures.
        rng: decides everything.

    Returns:
        Other rows, of the same shape.

    Examples:
        >>> perturbed(torch.zeros(4, 3), torch.Generator().manual_seed(0)).abs().sum().item()
        0.0
    """
    ways: list[Perturbation] = [interpolated, extrapolated, swapped, shuffled, rescaled, disturbed]
    if inputs.ndim == 4:
        ways.append(translated)
    order = torch.randperm(len(inputs), generator=rng)
    changed = inputs.clone()
    for way, rows in zip(ways, order.tensor_split(len(ways)), strict=True):
        if len(rows):
            changed[rows] = way(inputs, rows, rng)
    also = torch.rand(len(inputs), generator=rng) < DISTURBED_SHARE
    rows = also.nonzero()[:, 0]
    changed[rows] += _disturbance(inputs, rows, rng)
    return changed


def interpolated(inputs: Tensor, rows: Tensor, rng: torch.Generator) -> Tensor:
    """Somewhere on the line to another row."""
    chosen = inputs[rows]
    return chosen + _strengths(inputs, rows, rng) * (_others(inputs, rows, rng) - chosen)


def extrapolated(inputs: Tensor, rows: Tensor, rng: torch.Generator) -> Tensor:
    """Beyond the row, by up to the distance to another row."""
    chosen = inputs[rows]
    return chosen + _strengths(inputs, rows, rng) * (chosen - _others(inputs, rows, rng))


def swapped(inputs: Tensor, rows: Tensor, rng: torch.Generator) -> Tensor:
    """A share of the features from one other row."""
    return torch.where(_features(inputs, rows, rng), _others(inputs, rows, rng), inputs[rows])


def shuffled(inputs: Tensor, rows: Tensor, rng: torch.Generator) -> Tensor:
    """A share of the features from other rows, each of them from a row of its own."""
    flat = inputs.flatten(1)
    sources = torch.randint(len(flat), (len(rows), flat.shape[1]), generator=rng)
    mixed = flat.gather(0, sources.to(flat.device)).view(len(rows), *inputs.shape[1:])
    return torch.where(_features(inputs, rows, rng), mixed, inputs[rows])


def rescaled(inputs: Tensor, rows: Tensor, rng: torch.Generator) -> Tensor:
    """The row times a number from 0 to 2."""
    return 2 * _strengths(inputs, rows, rng) * inputs[rows]


def disturbed(inputs: Tensor, rows: Tensor, rng: torch.Generator) -> Tensor:
    """The row plus a difference of two others, whose features are in another order."""
    return inputs[rows] + _disturbance(inputs, rows, rng)


def translated(inputs: Tensor, rows: Tensor, rng: torch.Generator) -> Tensor:
    """Pictures `(rows, channels, height, width)`, moved; what leaves at one edge enters at another.

    All rows of a call are moved by the same number of pixels.
    """
    steps = []
    for side in inputs.shape[-2:]:
        most = max(1, side // TRANSLATION)
        steps.append(int(torch.randint(-most, most + 1, (), generator=rng)))
    return inputs[rows].roll(steps, (-2, -1))


def _disturbance(inputs: Tensor, rows: Tensor, rng: torch.Generator) -> Tensor:
    difference = (_others(inputs, rows, rng) - _others(inputs, rows, rng)).flatten(1)
    order = torch.randperm(difference.shape[1], generator=rng).to(inputs.device)
    moved = difference[:, order].view(len(rows), *inputs.shape[1:])
    return DISTURBANCE * _strengths(inputs, rows, rng) * moved


def _others(inputs: Tensor, rows: Tensor, rng: torch.Generator) -> Tensor:
    return inputs[torch.randint(len(inputs), (len(rows),), generator=rng)]


def _strengths(inputs: Tensor, rows: Tensor, rng: torch.Generator) -> Tensor:
    """A number from 0 to 1 for each row, in a shape that goes with the rows."""
    shape = len(rows), *[1] * (inputs.ndim - 1)
    return torch.rand(shape, generator=rng).to(inputs)


def _features(inputs: Tensor, rows: Tensor, rng: torch.Generator) -> Tensor:
    """Some of the features of each row, a share from 0 to 1: truth values in the rows' shape."""
    drawn = torch.rand((len(rows), *inputs.shape[1:]), generator=rng).to(inputs)
    return drawn < _strengths(inputs, rows, rng)
