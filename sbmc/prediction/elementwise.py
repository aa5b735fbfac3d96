"""Distributions with an axis for each output, whatever a likelihood has made of the outputs.

A likelihood gives one distribution for each particle and row, whose event is the row's target.
Quantiles and CRPS are those of single outputs. So `Independent`, which made outputs an event, is
taken off, and so is `Reshaped`, by which a user's function is given the rows of all particles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent

from sbmc.likelihoods.from_distribution import Reshaped


class Viewed(Distribution):
    """Univariate distributions in another batch shape.

    Args:
        base: of any batch shape, without an event.
        shape: with as many elements.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(self, base: Distribution, shape: torch.Size) -> None:
        self.base = base
        super().__init__(shape, validate_args=False)

    @property
    def support(self) -> Any:
        """That of the base."""
        return self.base.support

    @property
    def mean(self) -> Tensor:
        """Of each element."""
        return self.base.mean.reshape(self.batch_shape)

    @property
    def variance(self) -> Tensor:
        """Of each element."""
        return self.base.variance.reshape(self.batch_shape)

    def entropy(self) -> Tensor:
        """Of each element."""
        return self.base.entropy().reshape(self.batch_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Of values that can be expanded to the batch shape."""
        return self.of_base(self.base.log_prob, value)

    def of_base(self, function: Callable[[Tensor], Tensor], value: Tensor) -> Tensor:
        """A function of the base, at values that can be expanded to the batch shape."""
        each = value.expand(self.batch_shape).reshape(self.base.batch_shape)
        return function(each).reshape(self.batch_shape)


def elementwise(distribution: Distribution) -> Distribution:
    """The distributions of single outputs, of batch shape `(particles, rows, ...)`.

    Args:
        distribution: of batch shape `(particles, rows)`, as a likelihood gives it.

    Returns:
        Without an event, unless the event is one that cannot be taken apart (a multivariate
        normal distribution's, for example).

    Examples:
        >>> from torch.distributions import Normal
        >>> elementwise(Independent(Normal(torch.zeros(2, 5, 3), 1.0), 1)).batch_shape
        torch.Size([2, 5, 3])
    """
    if not isinstance(distribution, Reshaped):
        return _without_events(distribution)
    rows = _without_events(distribution.rows)
    if rows.event_shape:
        return distribution
    return Viewed(rows, distribution.batch_shape + rows.batch_shape[1:])


def _without_events(distribution: Distribution) -> Distribution:
    while isinstance(distribution, Independent):
        distribution = distribution.base_dist
    return distribution
