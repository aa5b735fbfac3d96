"""Means over several runs, with their standard errors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from sbmc.checks import require
from sbmc.storage.arrays import as_tensor


def standard_error(values: Sequence[float] | Tensor) -> float:
    """Standard error of the mean over R runs, with the paper's divisor.

        sqrt(1/R Σ_r (x_r − x̄)²) / sqrt(R)

    The unbiased divisor, R − 1, would give more by sqrt(R / (R − 1)): 12 % for five runs. The
    paper's divisor is used so that numbers can be compared with those of the paper.

    Args:
        values: one number per run.

    Returns:
        The standard error. It is 0 for a single run, where it means nothing: do not print it.

    Raises:
        BadInput: if there are no values.

    Examples:
        >>> standard_error([1.0, 3.0]) == 1 / math.sqrt(2)
        True
    """
    return mean_and_error(values)[1]


def mean_and_error(values: Sequence[float] | Tensor) -> tuple[float, float]:
    """Mean over runs, and its standard error as in `standard_error`.

    Args:
        values: one number per run.

    Returns:
        `(mean, standard error)`.

    Raises:
        BadInput: if there are no values.
    """
    runs = as_tensor(values, "values", numbers=True).double().flatten()
    require(len(runs) > 0, "values", "at least one number", values)
    mean = runs.mean()
    error = (runs - mean).square().mean().sqrt() / math.sqrt(len(runs))
    return mean.item(), error.item()
