"""Rows with weights: a weight of 2 is that row twice, and nothing is rescaled.

The weight of a row goes with its target, as a last column, so that whatever reads, shuffles or
splits the data keeps both together.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution

from sbmc.checks import Phrase, require
from sbmc.likelihoods.categorical import require_integers
from sbmc.likelihoods.likelihood import Kind, Likelihood, TargetMoments
from sbmc.storage.arrays import as_tensor


class Weighted(Likelihood):
    """A likelihood whose rows count as often as their weights say: w·log p(y | f).

    Args:
        base: the likelihood of a row.
        weights: of all rows, `(rows,)`.

    Examples:
        >>> from sbmc.likelihoods.gaussian import Gaussian
        >>> twice = Weighted(Gaussian(noise_variance=1.0), torch.tensor([1.0, 2.0]))
        >>> targets = twice.check(torch.zeros(2), torch.zeros(2, 1))
        >>> twice.log_prob(torch.zeros(1, 2, 1), targets)
        tensor([[-0.9189, -1.8379]])
    """

    name: ClassVar[str] = "weighted"

    def __init__(self, base: Likelihood, weights: Tensor) -> None:
        self.base = base
        self.weights = weights
        # Known when the targets have been checked.
        self._shape: tuple[int, ...] = ()
        self._dtype = torch.float32

    @property
    def kind(self) -> Kind:
        """That of the rows."""
        return self.base.kind

    def log_prob(self, outputs: Tensor, targets: Tensor, *, stacked: bool = False) -> Tensor:
        """Log likelihood of each row, times its weight."""
        plain, weights = self.parted(targets)
        return weights * self.base.log_prob(outputs, plain, stacked=stacked)

    def check(self, targets: Tensor, outputs: Tensor) -> Tensor:
        """Checked targets, with the weights after them, `(rows, columns + 1)`."""
        plain = self.base.check(targets, outputs)
        self._shape, self._dtype = tuple(plain.shape[1:]), plain.dtype
        columns = plain.reshape(len(plain), math.prod(self._shape))
        # Labels are whole numbers, which float32 has exactly up to 2²⁴.
        wide = torch.promote_types(outputs.dtype, torch.float32)
        return torch.cat([columns.to(wide), self.weights.to(columns.device, wide)[:, None]], 1)

    def parted(self, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Targets as the base wants them, and their weights."""
        plain = targets[..., :-1].reshape(*targets.shape[:-1], *self._shape)
        return plain.to(self._dtype), targets[..., -1]

    def distribution(self, outputs: Tensor) -> Distribution:
        """That of a row: weights are of the data and not of predictions."""
        return self.base.distribution(outputs)

    def logits(self, outputs: Tensor) -> Tensor:
        """Those of a row."""
        return self.base.logits(outputs)

    def moments(self, outputs: Tensor) -> TargetMoments:
        """Those of a row."""
        return self.base.moments(outputs)

    def describe(self) -> dict[str, Any]:
        """The likelihood of a row; weights belong to the data."""
        return self.base.describe()


def unweighted(likelihood: Likelihood) -> Likelihood:
    """The likelihood of a row."""
    return likelihood.base if isinstance(likelihood, Weighted) else likelihood


def without_weights(likelihood: Likelihood, targets: Tensor) -> tuple[Tensor, Tensor | None]:
    """Checked targets of the likelihood of a row, and their weights; None if all are 1."""
    return likelihood.parted(targets) if isinstance(likelihood, Weighted) else (targets, None)


def check_weights(weights: Any, rows: int) -> Tensor:
    """Weights as a tensor `(rows,)`, if they are finite, not negative, and not all zero.

    Args:
        weights: a tensor, an array or a list.
        rows: how many there have to be.

    Raises:
        BadInput: they break one of these rules.
    """
    values = as_tensor(weights, "weights")
    rule = f"numbers, one for each of the {rows} rows"
    require(values.shape == (rows,), "weights", rule, Phrase(f"shape {tuple(values.shape)}"))
    values = values if values.is_floating_point() else values.to(torch.get_default_dtype())
    good = torch.isfinite(values) & (values >= 0)
    bad = values[~good]
    require(
        len(bad) == 0, "weights", "finite and not negative", float(bad[0]) if len(bad) else None
    )
    require(bool((values > 0).any()), "weights", "positive for some rows", Phrase("zeros alone"))
    return values


def class_weights(labels: Tensor) -> Tensor:
    """Weights of rows that give all classes the same total: n / (K·n_c) for a row of class c.

    They sum to the number of rows n, so that the data have as much to say against the prior as
    before. This is scikit-learn's `"balanced"`.

    Args:
        labels: integers `(rows,)`.

    Returns:
        `(rows,)`, for `fit(..., weights=...)`.

    Raises:
        BadInput: labels are not integers.

    Examples:
        >>> class_weights(torch.tensor([0, 0, 0, 1]))
        tensor([0.6667, 0.6667, 0.6667, 2.0000])
    """
    labels = as_tensor(labels, "labels")
    require_integers(labels, "labels")
    shape = Phrase(f"shape {tuple(labels.shape)}")
    require(labels.ndim == 1 and len(labels) > 0, "labels", "one for each row", shape)
    _, index, counts = labels.unique(return_inverse=True, return_counts=True)
    return (len(labels) / (len(counts) * counts))[index]
