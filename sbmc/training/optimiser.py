"""What training asks of an optimiser: `Adam` and `SGD` are the two that there are."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor


class OptimiserState(Protocol):
    """What the next step needs; the leading axis of its tensors is the member."""

    def rows(self, index: Any) -> Any:
        """The state of the members at `index` alone; for a slice, a view of theirs."""

    def after(self, steps: int) -> Any:
        """The same tensors, which so many further steps have changed in place."""


class Optimiser(Protocol):
    """Settings of an optimiser, and its step for many members at once."""

    @property
    def compiled(self) -> bool:
        """Whether there is C code for the step."""

    def init(self, theta: Tensor) -> Any:
        """The state before the first step, for parameters `(members, dim)`."""

    def step(self, theta: Tensor, gradient: Tensor, state: Any) -> Any:
        """One step in place along the gradient of the whole loss; returns the next state."""

    def compiled_step(
        self,
        theta: Tensor,
        gradient: Tensor,
        centres: Tensor | None,
        precision: Tensor,
        state: Any,
    ) -> tuple[Any, Tensor]:
        """One step in place by the C code, which adds the gradient of the prior itself.

        Args:
            theta: parameters `(members, dim)`, contiguous float32, overwritten.
            gradient: of the loss without the prior's part.
            centres: where the prior is centred, `(members, dim)`; None for 0.
            precision: of the prior over the number of examples, `(dim,)`.
            state: its tensors are overwritten.

        Returns:
            The next state, and the prior's part of the loss before the step, `(members,)` float64.
        """
