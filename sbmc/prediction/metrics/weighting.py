"""Weights of examples in metrics: a weight of 2 is that example twice, as in `fit(weights=...)`."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from sbmc.likelihoods.weighted import check_weights


def as_weights(weights: Any, examples: int) -> Tensor | None:
    """Weights `(examples,)` float64 on the CPU; None if there are none.

    Raises:
        BadInput: not one for each example, negative, not finite, or all zero.
    """
    if weights is None:
        return None
    return check_weights(weights, examples).cpu().double()


def weighted_mean(values: Tensor, weights: Any = None) -> float:
    """The mean over examples and outputs, Σ_n w_n v̄_n / Σ_n w_n with v̄_n that over outputs.

    Args:
        values: `(examples, ...)`.
        weights: `(examples,)`; None counts all alike.

    Returns:
        The mean.

    Raises:
        BadInput: as for `as_weights`.

    Examples:
        >>> import torch
        >>> weighted_mean(torch.tensor([1.0, 4.0]), [2, 1])
        2.0
    """
    counts = as_weights(weights, len(values))
    if counts is None:
        return values.mean().item()
    each = values.detach().cpu().double().reshape(len(values), -1).mean(1)
    return ((counts * each).sum() / counts.sum()).item()
