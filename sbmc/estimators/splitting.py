"""Rows that are set aside before training, to stop it and to choose s."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sbmc.checks import is_number, require
from sbmc.estimators.defaults import FEWEST_VALIDATION_ROWS


class Rows(NamedTuple):
    """Row numbers; those of validation are None if none are set aside."""

    training: np.ndarray
    validation: np.ndarray | None


def set_rows_aside(
    inputs: np.ndarray, labels: np.ndarray, fraction: float, rng: np.random.RandomState
) -> Rows:
    """Divide rows by chance, with the same share of each class.

    Rows of equal inputs stay together: a row that training has seen could not judge it. Every class
    keeps a row to train on.

    Args:
        inputs: `(rows, columns)`, as the network gets them.
        labels: `(rows,)` integers from 0; all 0 where there are no classes.
        fraction: of the rows to set aside, from 0 up to 1.
        rng: decides which.

    Returns:
        The rows, each part in the order of the table.

    Raises:
        BadInput: the fraction is outside.

    Examples:
        >>> rows = np.arange(10.0)[:, None]
        >>> parts = set_rows_aside(rows, np.zeros(10, int), 0.2, np.random.RandomState(0))
        >>> len(parts.training), len(parts.validation)
        (8, 2)
    """
    good = is_number(fraction) and 0 <= fraction < 1
    require(good, "validation_fraction", "from 0 up to 1, 1 excluded", fraction)
    groups: dict[bytes, list[int]] = {}
    for row in rng.permutation(len(inputs)):
        groups.setdefault(inputs[row].tobytes(), []).append(row)
    sizes = np.bincount(labels)
    room = np.minimum(np.round(float(fraction) * sizes), sizes - 1)
    validation: list[int] = []
    for members in groups.values():
        needed = np.bincount(labels[members], minlength=len(sizes))
        if (needed <= room).all():
            room = room - needed
            validation += members
    everything = np.arange(len(inputs))
    if len(validation) < FEWEST_VALIDATION_ROWS:
        return Rows(everything, None)
    return Rows(np.setdiff1d(everything, validation), np.sort(validation))
