"""Stochastic gradient descent with momentum for many members at once, of which some may leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sbmc.checks import is_number, require
from sbmc.model.kernels.native import sgd


class SGDState(NamedTuple):
    """What the next step needs; the leading axis is the member."""

    velocity: Tensor  # (members, dim): decayed sum of the gradients

    def rows(self, index: Any) -> SGDState:
        """The state of the members at `index` alone; for a slice, a view of theirs."""
        return SGDState(self.velocity[index])

    def after(self, steps: int) -> SGDState:
        """The same: a step does not depend on how many there were."""
        return self


@dataclass(frozen=True)
class SGD:
    """Settings of stochastic gradient descent with momentum, as `torch.optim.SGD` has it.

    u ← μ·u + g and θ ← θ − η·u. A weight decay is the prior's business: v = 1 / (decay · n).

    Args:
        learning_rate: η.
        momentum: μ, from 0 to below 1.

    Raises:
        BadInput: a setting breaks its rule.

    Examples:
        >>> theta, gradient = torch.ones(1, 2), torch.full((1, 2), 2.0)
        >>> optimiser = SGD(learning_rate=0.1, momentum=0.5)
        >>> state = optimiser.step(theta, gradient, optimiser.init(theta))
        >>> state = optimiser.step(theta, gradient, state)
        >>> theta
        tensor([[0.5000, 0.5000]])
    """

    learning_rate: float
    momentum: float = 0.0

    def __post_init__(self) -> None:
        good = is_number(self.learning_rate) and 0 < self.learning_rate < float("inf")
        require(good, "learning_rate", "positive and finite", self.learning_rate)
        good = is_number(self.momentum) and 0 <= self.momentum < 1
        require(good, "momentum", "at least 0 and below 1", self.momentum)

    @property
    def compiled(self) -> bool:
        """Whether there is C code for the step."""
        return sgd.available()

    def init(self, theta: Tensor) -> SGDState:
        """The state before the first step."""
        return SGDState(torch.zeros_like(theta))

    @torch.no_grad()
    def step(self, theta: Tensor, gradient: Tensor, state: SGDState) -> SGDState:
        """One step in place; see `Optimiser`."""
        state.velocity.mul_(self.momentum).add_(gradient)
        theta.add_(state.velocity, alpha=-self.learning_rate)
        return state

    def compiled_step(
        self,
        theta: Tensor,
        gradient: Tensor,
        centres: Tensor | None,
        precision: Tensor,
        state: SGDState,
    ) -> tuple[SGDState, Tensor]:
        """One step in place by the C code; see `Optimiser`."""
        numbers = sgd.SGD(self.learning_rate, self.momentum)
        penalty = sgd.advance(numbers, theta, gradient, centres, precision, state.velocity)
        return state, penalty
