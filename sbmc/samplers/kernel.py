"""A Markov kernel as SMC uses it: one step for the particles of many islands at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from torch import Tensor

from sbmc.samplers.adaptation import Adaptive
from sbmc.samplers.noise import IslandNoise
from sbmc.target.target import Target


class Kernel(Adaptive, Protocol):
    """Settings of an algorithm that can move the particles of SMC: `HMC`, `MALA`, `PCN`."""

    @property
    def with_gradient(self) -> bool:
        """Whether evaluations are with gradient, and so counted as epochs."""

    @property
    def largest_step(self) -> float:
        """The largest step size."""

    @property
    def vectors(self) -> int:
        """Vectors of a position's size that a particle takes at the peak of a step."""

    def count_step(self) -> tuple[int, tuple[str, ...]]:
        """Evaluations of a step, and notes on what had to be assumed for the count."""

    def begin(self, position: Tensor, target: Target) -> Any:
        """The state at `position`: a NamedTuple with `position` and `log_likelihood`."""

    def advance(
        self,
        rng: IslandNoise,
        state: Any,
        target: Target,
        *,
        step_sizes: list[float],
        temperature: Tensor,
    ) -> tuple[Any, Any, list[int]]:
        """Make one step; return also the evaluations of each particle, by island."""

    def probe(
        self,
        rng: IslandNoise,
        state: Any,
        target: Target,
        *,
        step_sizes: list[float],
        temperature: Tensor,
    ) -> tuple[Any, Any, list[int]]:
        """Make the cheapest step whose acceptance shows how good a step size is."""


class OneStepKernel:
    """Settings of an algorithm whose step takes one evaluation; a part of `MALA` and `PCN`.

    Attributes:
        init_function: `(position, target) -> state`.
        step_function: `(rng, state, target, step_size=, temperature=) -> (state, info)`.
    """

    init_function: ClassVar[Callable[..., Any]]
    step_function: ClassVar[Callable[..., Any]]

    def begin(self, position: Tensor, target: Target) -> Any:
        """The state at `position`."""
        return self.init_function(position, target)

    def advance(
        self,
        rng: IslandNoise,
        state: Any,
        target: Target,
        *,
        step_sizes: list[float],
        temperature: Tensor,
    ) -> tuple[Any, Any, list[int]]:
        """One step; see `Kernel`."""
        moved, info = self.step_function(
            rng,
            state,
            target,
            step_size=rng.per_particle(step_sizes),
            temperature=rng.per_particle(temperature),
        )
        return moved, info, [1] * len(step_sizes)

    probe = advance
