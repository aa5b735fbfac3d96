"""Several steps of a Markov kernel at one temperature: a number of them, or until they settle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from sbmc.samplers.kernel import Kernel
from sbmc.samplers.noise import IslandNoise, island_rows
from sbmc.target import Target


class MutationInfo(NamedTuple):
    """What the steps at one temperature have to tell, by island."""

    acceptance: list[float]  # mean over particles and steps
    mutations: list[int]  # steps made
    evaluations: list[int]  # of each particle
    non_finite: list[int]  # proposals rejected because they were not finite


@dataclass(frozen=True)
class Mutation:
    """The moves of a batch of islands at one temperature.

    Args:
        kernel: makes one step.
        target: log likelihood, and gradient where the kernel wants it.
        step_sizes: by island; fixed throughout, so that the kernel is.
        mutations: M by island: how many steps, or at most how many if `eta` is given.
        eta: stop at the first M ≥ 2 at which the mean distance from the start has changed by no
            more than this fraction (the paper's appendix). Distances are in whitened units.
        keep: called with every state, the first included: what a waste-free sampler is made of.
    """

    kernel: Kernel
    target: Target
    step_sizes: list[float]
    mutations: list[int]
    eta: float | None = None
    keep: Callable[[Any], None] | None = None

    def __call__(
        self, rng: IslandNoise, state: Any, temperature: Tensor
    ) -> tuple[Any, MutationInfo, int]:
        """Move all particles; each of them stays one particle."""
        islands, particles = len(temperature), rng.particles
        start = state.position
        state = type(state)(*(part.clone() for part in state))
        accepted, evaluations, broken = [0.0] * islands, [0] * islands, [0] * islands
        made, settled = [0] * islands, [False] * islands
        distance: list[float | None] = [None] * islands
        if self.keep is not None:
            self.keep(state)
        while going := [
            i for i in range(islands) if made[i] < self.mutations[i] and not settled[i]
        ]:
            rows = island_rows(going, particles)
            part, info, costs = self.kernel.advance(
                rng.select(going),
                type(state)(*(field[rows] for field in state)),
                self.target,
                step_sizes=[self.step_sizes[i] for i in going],
                temperature=temperature[going],
            )
            for whole, fresh in zip(state, part, strict=True):
                whole[rows] = fresh
            moved = (part.position - start[rows]).double().norm(dim=-1)
            distances = moved.view(len(going), particles).mean(1).tolist()
            acceptance = info.acceptance.view(len(going), particles).mean(1).tolist()
            non_finite = info.non_finite.view(len(going), particles).sum(1).tolist()
            for k, i in enumerate(going):
                made[i] += 1
                accepted[i] += acceptance[k]
                evaluations[i] += costs[k]
                broken[i] += non_finite[k]
                settled[i] = self._settled(distance[i], distances[k])
                distance[i] = distances[k]
            if self.keep is not None:
                self.keep(state)
        means = [total / max(1, count) for total, count in zip(accepted, made, strict=True)]
        return state, MutationInfo(means, made, evaluations, broken), 1

    def _settled(self, before: float | None, now: float) -> bool:
        # With no movement at all the rule says nothing: the particles have yet to leave.
        if self.eta is None or not before:
            return False
        return abs(now - before) <= self.eta * before
