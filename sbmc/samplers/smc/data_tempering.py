"""Moves of SMC when data are added: the old data stay as they are, the new ones are tempered in.

An island that has sampled π̄0·L_old goes on to π̄0·L_old·L_new by the targets

    log π_λ(z) = λ·ℓ_new(z) + ℓ_old(z) − ‖z‖²/2,   λ from 0 to 1

(Chopin, 2002, with a temperature between two batches of data). For the tempering step the
likelihood is that of the new data alone: it weights particles by L_new^(λ' − λ), and the mean of
the weights estimates Z(old and new) / Z(old). The moves have to leave π_λ invariant, so a kernel is
given ℓ_old + λ·ℓ_new as its log likelihood, at temperature 1. Nothing else of SMC changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sbmc.samplers.kernel import Kernel
from sbmc.samplers.noise import IslandNoise, island_rows
from sbmc.target.target import Evaluation, Evaluations, Target

# Vectors of a particle besides those of its kernel: gradients of both parts, before and after.
FURTHER_VECTORS = 6


class GrowingState(NamedTuple):
    """What the next move needs; the leading axis of every field is the particle.

    Both parts are kept, so that a change of temperature costs no evaluation. Gradients have no
    columns where the kernel needs none.
    """

    position: Tensor  # (particles, dim), whitened
    log_likelihood: Tensor  # (particles,) float64, of the new data
    gradient: Tensor  # (particles, dim), of the new data
    old_log_likelihood: Tensor  # (particles,) float64
    old_gradient: Tensor  # (particles, dim)


@dataclass(eq=False)
class GrowingTarget:
    """The likelihoods of old and of new data, in the coordinates of one prior.

    Args:
        old: of the data that particles have been sampled with.
        new: of the data that are added.
    """

    old: Target
    new: Target

    @property
    def prior(self) -> Any:
        """The prior, which defines the coordinates."""
        return self.new.prior

    @property
    def dim(self) -> int:
        """Number of sampled parameters."""
        return self.new.dim

    @property
    def evaluations(self) -> Evaluations:
        """Evaluations of the old data; those of the new data are as many."""
        return self.old.evaluations

    def state(self, position: Tensor, with_gradient: bool) -> GrowingState:
        """Evaluate both parts."""
        if not with_gradient:
            none = position.new_zeros(len(position), 0)
            values = [part.log_likelihood(position).double() for part in (self.new, self.old)]
            return GrowingState(position.clone(), values[0], none, values[1], none.clone())
        return GrowingState(position.clone(), *self.new(position), *self.old(position))


class _Known:
    """A target that evaluates nothing: its values are known."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation

    def __call__(self, positions: Tensor) -> Evaluation:
        return self._evaluation

    def log_likelihood(self, positions: Tensor) -> Tensor:
        return self._evaluation.log_likelihood


class _Tempered:
    """ℓ_old + λ·ℓ_new, with both parts of the last evaluation."""

    def __init__(self, target: GrowingTarget, temperature: float, with_gradient: bool) -> None:
        self._target, self._temperature = target, temperature
        self._with_gradient = with_gradient
        self.last: GrowingState | None = None

    def __call__(self, positions: Tensor) -> Evaluation:
        self.last = self._target.state(positions, with_gradient=self._with_gradient)
        return self.together(self.last)

    def log_likelihood(self, positions: Tensor) -> Tensor:
        return self(positions).log_likelihood

    def together(self, state: GrowingState) -> Evaluation:
        return Evaluation(
            state.old_log_likelihood + self._temperature * state.log_likelihood,
            state.old_gradient + self._temperature * state.gradient,
        )

    def parts(self, position: Tensor, before: GrowingState) -> GrowingState:
        """Both parts at the end of a move, evaluated only where they are not known."""
        state = GrowingState(position, *(part.clone() for part in before[1:]))
        unknown = (position != before.position).any(1)
        last = self.last
        if last is not None and len(last.position) == len(position):
            here = unknown & (last.position == position).all(1)
            for field, values in zip(state[1:], last[1:], strict=True):
                field[here] = values[here]
            unknown = unknown & ~here
        if bool(unknown.any()):
            evaluated = self._target.state(position[unknown], with_gradient=self._with_gradient)
            for field, values in zip(state[1:], evaluated[1:], strict=True):
                field[unknown] = values
        return state


@dataclass(frozen=True)
class DataTempering:
    """A kernel of SMC, moved to the targets of added data.

    Args:
        kernel: makes the moves: settings of `HMC`, `MALA` or `PCN`.
    """

    kernel: Kernel

    @property
    def step_size(self) -> float | None:
        """The first step size, or None to search for it."""
        return self.kernel.step_size

    @property
    def adapt(self) -> bool:
        """Whether the step size is adapted."""
        return self.kernel.adapt

    @property
    def acceptance_band(self) -> tuple[float, float]:
        """Acceptances at which the step size is not changed."""
        return self.kernel.acceptance_band

    @property
    def shrink(self) -> float:
        """Factor below the band."""
        return self.kernel.shrink

    @property
    def grow(self) -> float:
        """Factor above the band."""
        return self.kernel.grow

    @property
    def with_gradient(self) -> bool:
        """Whether evaluations are with gradient."""
        return self.kernel.with_gradient

    @property
    def largest_step(self) -> float:
        """The largest step size."""
        return self.kernel.largest_step

    @property
    def vectors(self) -> int:
        """Vectors of a position's size that a particle takes at the peak of a step."""
        return self.kernel.vectors + FURTHER_VECTORS

    def count_step(self) -> tuple[int, tuple[str, ...]]:
        """Evaluations of a step, each of all data, and notes on what had to be assumed."""
        return self.kernel.count_step()

    def begin(self, position: Tensor, target: Any) -> GrowingState:
        """The state at `position`, for one evaluation of all data."""
        return target.state(position, with_gradient=self.with_gradient)

    def advance(
        self,
        rng: IslandNoise,
        state: GrowingState,
        target: Any,
        *,
        step_sizes: list[float],
        temperature: Tensor,
    ) -> tuple[GrowingState, Any, list[int]]:
        """One step of the kernel; see `Kernel`."""
        return self._each(self.kernel.advance, rng, state, target, step_sizes, temperature)

    def probe(
        self,
        rng: IslandNoise,
        state: GrowingState,
        target: Any,
        *,
        step_sizes: list[float],
        temperature: Tensor,
    ) -> tuple[GrowingState, Any, list[int]]:
        """The cheapest step of the kernel; see `Kernel`."""
        return self._each(self.kernel.probe, rng, state, target, step_sizes, temperature)

    def _each(
        self,
        step: Callable[..., tuple[Any, Any, list[int]]],
        rng: IslandNoise,
        state: GrowingState,
        target: GrowingTarget,
        step_sizes: list[float],
        temperature: Tensor,
    ) -> tuple[GrowingState, Any, list[int]]:
        """Move one island after another, since each has a likelihood of its own by its λ."""
        states, infos, costs = [], [], []
        for i, size in enumerate(step_sizes):
            rows = island_rows([i], rng.particles)
            before = GrowingState(*(field[rows] for field in state))
            tempered = _Tempered(target, float(temperature[i]), self.with_gradient)
            known: Any = _Known(tempered.together(before))
            moved, info, cost = step(
                rng.select([i]),
                self.kernel.begin(before.position, known),
                tempered,
                step_sizes=[size],
                temperature=torch.ones_like(temperature[[i]]),
            )
            states.append(tempered.parts(moved.position, before))
            infos.append(info)
            costs += cost
        joined = (torch.cat(fields) for fields in zip(*states, strict=True))
        info = type(infos[0])(*(torch.cat(fields) for fields in zip(*infos, strict=True)))
        return GrowingState(*joined), info, costs
