"""Adam for many members at once, of which some may leave."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

# β₁, β₂ and ε of the paper.
DECAY, EPSILON = (0.9, 0.999), 1e-8


class AdamState(NamedTuple):
    """What the next step needs; the leading axis of the tensors is the member."""

    first: Tensor  # (members, dim): decayed mean of the gradient
    second: Tensor  # (members, dim): decayed mean of its square
    steps: int

    def rows(self, index: Tensor) -> AdamState:
        """The state of the members at `index` alone."""
        return AdamState(self.first[index], self.second[index], self.steps)


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
