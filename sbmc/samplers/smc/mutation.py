"""Several steps of a Markov kernel at one temperature: a number of them, or until they settle."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sbmc.samplers.kernel import Kernel
from sbmc.samplers.noise import IslandNoise, island_rows
from sbmc.samplers.snapshot import (
    NO_CHECKPOINTS,
    Checkpointer,
    Snapshot,
    fields_of,
    generator_states,
    set_generators,
    with_fields,
)
from sbmc.target.target import Target


class MutationInfo(NamedTuple):
    """What the steps at one temperature have to tell, by island."""

    acceptance: list[float]  # mean over particles and steps
    mutations: list[int]  # steps made
    evaluations: list[int]  # of each particle
    non_finite: list[int]  # proposals rejected because they were not finite
    by_particle: list[list[float]]  # mean acceptance of each particle over steps


@dataclass
class Tally:
    """How far the moves of each island have come."""

    accepted: list[float]  # sum over steps
    made: list[int]
    evaluations: list[int]
    broken: list[int]
    settled: list[bool]
    distance: list[float | None]  # mean, from the start
    by_particle: list[list[float]]  # acceptance of each particle, sum over steps

    @classmethod
    def of(cls, islands: int, particles: int) -> Tally:
        """No move has been made."""
        return cls(
            accepted=[0.0] * islands,
            made=[0] * islands,
            evaluations=[0] * islands,
            broken=[0] * islands,
            settled=[False] * islands,
            distance=[None] * islands,
            by_particle=[[0.0] * particles for _ in range(islands)],
        )

    def info(self) -> MutationInfo:
        """What there is to tell."""
        sums = zip(self.accepted, self.made, strict=True)
        means = [total / max(1, count) for total, count in sums]
        each = [
            [total / max(1, count) for total in totals]
            for totals, count in zip(self.by_particle, self.made, strict=True)
        ]
        return MutationInfo(means, self.made, self.evaluations, self.broken, each)


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
        kept: a list that gets a copy of every state, the first included: what a waste-free sampler
            is made of.
        checkpointer: is offered the snapshot after every move, as "mutation".
    """

    kernel: Kernel
    target: Target
    step_sizes: list[float]
    mutations: list[int]
    eta: float | None = None
    kept: list[Any] | None = None
    checkpointer: Checkpointer = NO_CHECKPOINTS

    def __call__(
        self, rng: IslandNoise, state: Any, temperature: Tensor
    ) -> tuple[Any, MutationInfo, int]:
        """Move all particles; each of them stays one particle."""
        islands, particles = len(temperature), rng.particles
        start = state.position
        state = type(state)(*(part.clone() for part in state))
        tally = Tally.of(islands, particles)
        snapshot = self.checkpointer.restore("mutation")
        if snapshot is None:
            self._keep(state)
        else:
            state, tally = self._go_on(snapshot, rng, state, tally)
        while going := [
            i for i in range(islands) if tally.made[i] < self.mutations[i] and not tally.settled[i]
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
            by_particle = info.acceptance.view(len(going), particles)
            acceptance, by_particle = by_particle.mean(1).tolist(), by_particle.tolist()
            non_finite = info.non_finite.view(len(going), particles).sum(1).tolist()
            for k, i in enumerate(going):
                tally.made[i] += 1
                tally.accepted[i] += acceptance[k]
                sums = zip(tally.by_particle[i], by_particle[k], strict=True)
                tally.by_particle[i] = [total + each for total, each in sums]
                tally.evaluations[i] += int(costs[k])
                tally.broken[i] += non_finite[k]
                tally.settled[i] = self._settled(tally.distance[i], distances[k])
                tally.distance[i] = distances[k]
            self._keep(state)
            self.checkpointer.offer_snapshot("mutation", partial(self._snapshot, rng, state, tally))
        self.checkpointer.discard("mutation")
        return state, tally.info(), 1

    def _keep(self, state: Any) -> None:
        if self.kept is not None:
            self.kept.append(type(state)(*(part.clone() for part in state)))

    def _snapshot(self, rng: IslandNoise, state: Any, tally: Tally) -> Snapshot:
        tensors = fields_of("state", state)
        if self.kept:
            together = [torch.stack(parts) for parts in zip(*self.kept, strict=True)]
            tensors |= fields_of("kept", type(state)(*together))
        tensors["generators"] = generator_states(rng.generators)
        return Snapshot(tensors, asdict(tally))

    def _go_on(
        self, snapshot: Snapshot, rng: IslandNoise, state: Any, tally: Tally
    ) -> tuple[Any, Tally]:
        """The moves as they were; `state` and `tally` tell only of what kind they are."""
        if self.kept is not None:
            together = with_fields("kept", state, snapshot.tensors)
            self.kept[:] = [type(state)(*parts) for parts in zip(*together, strict=True)]
        set_generators(rng.generators, snapshot.tensors["generators"])
        # A snapshot of an earlier version does not count by particle.
        tally = replace(tally, **{name: list(values) for name, values in snapshot.values.items()})
        return with_fields("state", state, snapshot.tensors), tally

    def _settled(self, before: float | None, now: float) -> bool:
        # With no movement at all the rule says nothing: the particles have yet to leave.
        if self.eta is None or not before:
            return False
        return abs(now - before) <= self.eta * before
