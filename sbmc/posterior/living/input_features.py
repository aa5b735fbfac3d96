"""A few numbers for each row of inputs, whose distribution is watched.

A row of at most `MOST_COLUMNS` numbers is described by these numbers. Of a larger one, such as a
picture, there are its mean, its standard deviation, and random projections Σ_j ε_j x_j / √d with
signs ε that are fixed once and for all, so that nothing of them has to be stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sbmc.model.data import Inputs

# Each is a test of its own, and the more tests there are, the larger a shift has to be to be found.
MOST_COLUMNS = 32
SUMMARIES = ("mean", "standard deviation")
PROJECTIONS = MOST_COLUMNS - len(SUMMARIES)
SEED = 23
# Rows that are projected together.
ROWS_TOGETHER = 256


def feature_names(inputs: Inputs, names: Sequence[str] | None = None) -> tuple[str, ...]:
    """What the columns of `input_features` are called.

    Args:
        inputs: tensors `(rows, ...)`.
        names: of the columns of a table; used if inputs are one tensor with so many columns.

    Returns:
        A name for each feature.

    Examples:
        >>> feature_names(torch.zeros(5, 2), ["age", "height"])
        ('age', 'height')
        >>> feature_names({"a": torch.zeros(5), "b": torch.zeros(5, 1)})
        ('a: column 0', 'b: column 0')
    """
    if isinstance(inputs, Tensor):
        own = _names_of_one(inputs)
        return tuple(names) if names is not None and len(names) == len(own) else own
    parts = inputs.items() if isinstance(inputs, dict) else enumerate(inputs)
    return tuple(f"{key}: {name}" for key, part in parts for name in _names_of_one(part))


def input_features(inputs: Inputs) -> np.ndarray:
    """The numbers that describe each row, `(rows, features)` float64.

    Args:
        inputs: tensors `(rows, ...)`.

    Examples:
        >>> input_features(torch.tensor([[1.0, 2.0]])).tolist()
        [[1.0, 2.0]]
        >>> input_features(torch.ones(1, 10, 10))[0, :3].tolist()
        [1.0, 0.0, 0.8]
    """
    parts = [inputs] if isinstance(inputs, Tensor) else _parts(inputs)
    return np.concatenate([_features_of_one(part) for part in parts], axis=1)


def _parts(inputs: Inputs) -> list[Tensor]:
    return list(inputs.values()) if isinstance(inputs, dict) else list(inputs)


def _names_of_one(tensor: Tensor) -> tuple[str, ...]:
    columns = math.prod(tensor.shape[1:])
    if columns <= MOST_COLUMNS:
        return tuple(f"column {j}" for j in range(columns))
    return (*SUMMARIES, *(f"projection {j}" for j in range(PROJECTIONS)))


def _features_of_one(tensor: Tensor) -> np.ndarray:
    flat = tensor.detach().reshape(len(tensor), -1)
    columns = flat.shape[1]
    if columns <= MOST_COLUMNS:
        return flat.double().cpu().numpy()
    signs = _signs(columns)
    parts = []
    for rows in flat.split(ROWS_TOGETHER):
        values = rows.double().cpu()
        spread, mean = torch.std_mean(values, dim=1, correction=0)
        projected = values @ signs / math.sqrt(columns)
        parts.append(torch.cat([mean[:, None], spread[:, None], projected], dim=1))
    return torch.cat(parts).numpy()


def _signs(columns: int) -> Tensor:
    """Random signs `(columns, projections)`."""
    # Of numpy's generators this one is frozen: files must mean the same in every later version.
    signs = 2 * np.random.RandomState(SEED).randint(2, size=(columns, PROJECTIONS)) - 1
    return torch.from_numpy(signs).double()
