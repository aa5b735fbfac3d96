"""Adam for many members at once, of which some may leave."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sbmc.checks import is_number, require
from sbmc.model.kernels.native import adam

# β₁, β₂ and ε of the paper.
DECAY, EPSILON = (0.9, 0.999), 1e-8


class AdamState(NamedTuple):
    """What the next step needs; the leading axis of the tensors is the member."""

    first: Tensor  # (members, dim): decayed mean of the gradient
    second: Tensor  # (members, dim): decayed mean of its square
    steps: int

    def rows(self, index: Any) -> AdamState:
        """The state of the members at `index` alone; for a slice, a view of theirs."""
        return AdamState(self.first[index], self.second[index], self.steps)

    def after(self, steps: int) -> AdamState:
        """The same tensors, which so many further steps have changed in place."""
        return self._replace(steps=self.steps + steps)


def adam_init(theta: Tensor) -> AdamState:
    """The state before the first step."""
    return AdamState(torch.zeros_like(theta), torch.zeros_like(theta), 0)


@torch.no_grad()
def adam_step(
    theta: Tensor,
    gradient: Tensor,
    state: AdamState,
    learning_rate: float,
    decay: tuple[float, float] = DECAY,
    epsilon: float = EPSILON,
) -> AdamState:
    """Take one step of Adam (Kingma & Ba, 2015, Algorithm 1) in place.

    θ ← θ − η · m̂ / (√v̂ + ε). `torch.optim.Adam` does the same arithmetic; this one keeps its state
    in rows, so that a member that has stopped takes its row with it.

    Args:
        theta: parameters `(members, dim)`, overwritten.
        gradient: gradient of the loss, `(members, dim)`.
        state: from `adam_init` or the step before; its tensors are overwritten.
        learning_rate: η.
        decay: β₁ and β₂.
        epsilon: ε.

    Returns:
        The state for the next step.
    """
    steps = state.steps + 1
    state.first.lerp_(gradient, 1 - decay[0])
    state.second.mul_(decay[1]).addcmul_(gradient, gradient, value=1 - decay[1])
    scale = state.second.sqrt().div_(math.sqrt(1 - decay[1] ** steps)).add_(epsilon)
    theta.addcdiv_(state.first, scale, value=-learning_rate / (1 - decay[0] ** steps))
    return state._replace(steps=steps)


@dataclass(frozen=True)
class Adam:
    """Settings of Adam; with a `weight_decay`, of AdamW (Loshchilov & Hutter, 2019).

    The decay is apart from the gradient: θ ← (1 − η·w) θ before each step, as `torch.optim.AdamW`
    has it. One that is part of the gradient, as in `torch.optim.Adam`, is the prior's business:
    v = 1 / (decay · n).

    Args:
        learning_rate: η.
        weight_decay: w.

    Raises:
        BadInput: a setting breaks its rule.

    Examples:
        >>> theta, optimiser = torch.ones(1, 2), Adam(learning_rate=0.1, weight_decay=0.5)
        >>> state = optimiser.step(theta, torch.ones(1, 2), optimiser.init(theta))
        >>> theta
        tensor([[0.8500, 0.8500]])
    """

    learning_rate: float = 1e-3
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        good = is_number(self.learning_rate) and 0 < self.learning_rate < math.inf
        require(good, "learning_rate", "positive and finite", self.learning_rate)
        good = is_number(self.weight_decay) and 0 <= self.weight_decay * self.learning_rate < 1
        rule = "at least 0, and below 1 / learning_rate"
        require(good, "weight_decay", rule, self.weight_decay)

    @property
    def compiled(self) -> bool:
        """Whether there is C code for the step."""
        return adam.available()

    def init(self, theta: Tensor) -> AdamState:
        """The state before the first step."""
        return adam_init(theta)

    @torch.no_grad()
    def step(self, theta: Tensor, gradient: Tensor, state: AdamState) -> AdamState:
        """One step in place; see `Optimiser`."""
        if self.weight_decay:
            theta.mul_(1 - self.learning_rate * self.weight_decay)
        return adam_step(theta, gradient, state, self.learning_rate)

    def compiled_step(
        self,
        theta: Tensor,
        gradient: Tensor,
        centres: Tensor | None,
        precision: Tensor,
        state: AdamState,
    ) -> tuple[AdamState, Tensor]:
        """One step in place by the C code; see `Optimiser`."""
        state = state.after(1)
        first, second = DECAY
        rate = self.learning_rate / (1 - first**state.steps)
        root = math.sqrt(1 - second**state.steps)
        kept = 1 - self.learning_rate * self.weight_decay
        numbers = adam.Adam(first, second, rate, root, EPSILON, kept)
        moments = state.first, state.second
        return state, adam.advance(numbers, theta, gradient, centres, precision, moments)
