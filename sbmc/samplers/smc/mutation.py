"""Several steps of a Markov kernel at one temperature: a fixed number, or until they settle."""

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
    """The info of the steps at one temperature, by island."""

    acceptance: list[float]  # mean over particles and steps
    mutations: list[int]  # steps made
    evaluations: list[int]  # of each particle
    non_finite: list[int]  # proposals rejected because they were not finite
    by_particle: list[list[float]]  # mean acceptance of each particle over steps


@dataclass
class Tally:
    """Running counts of each island's moves. Checkpoints save the fields by name."""

    accepted: list[float]  # sum over steps
    made: list[int]
    evaluations: list[int]
    broken: list[int]
    settled: list[bool]
    distance: list[float | None]  # mean, from the start
    by_particle: list[list[float]]  # acceptance of each particle, sum over steps

    @classmethod
    def of(cls, islands: int, particles: int) -> Tally:
        """Counts before the first move."""
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
        """The info."""
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
        target: log likelihood, and gradient if the kernel needs it.
        step_sizes: by island; fixed throughout, so that the kernel is.
        mutations: M by island: how many steps, or at most how many if `eta` is given.
        eta: stop at the first M ≥ 2 at which the mean distance from the start has changed by no
            more than this fraction (the paper's appendix). Distances are in whitened units.
        states: a list to which a copy of every state is added, the first included; for the
            waste-free sampler.
        checkpointer: is offered a snapshot named "mutation" after every move.
    """

    kernel: Kernel
    target: Target
    step_sizes: list[float]
    mutations: list[int]
    eta: float | None = None
    states: list[Any] | None = None
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
            self._save(state)
        else:
            state, tally = self._continue(snapshot, rng, state, tally)
        while active := [
            i for i in range(islands) if tally.made[i] < self.mutations[i] and not tally.settled[i]
        ]:
            rows = island_rows(active, particles)
            part, info, costs = self.kernel.advance(
                rng.select(active),
                type(state)(*(field[rows] for field in state)),
                self.target,
                step_sizes=[self.step_sizes[i] for i in active],
                temperature=temperature[active],
            )
            for field, new_rows in zip(state, part, strict=True):
                field[rows] = new_rows
            moved = (part.position - start[rows]).double().norm(dim=-1)
            distances = moved.view(len(active), particles).mean(1).tolist()
            by_particle = info.acceptance.view(len(active), particles)
            acceptance, by_particle = by_particle.mean(1).tolist(), by_particle.tolist()
            non_finite = info.non_finite.view(len(active), particles).sum(1).tolist()
            for k, i in enumerate(active):
                tally.made[i] += 1
                tally.accepted[i] += acceptance[k]
                sums = zip(tally.by_particle[i], by_particle[k], strict=True)
                tally.by_particle[i] = [total + each for total, each in sums]
                tally.evaluations[i] += int(costs[k])
                tally.broken[i] += non_finite[k]
                tally.settled[i] = self._settled(tally.distance[i], distances[k])
                tally.distance[i] = distances[k]
            self._save(state)
            self.checkpointer.offer_snapshot("mutation", partial(self._snapshot, rng, state, tally))
        self.checkpointer.discard("mutation")
        return state, tally.info(), 1

    def _save(self, state: Any) -> None:
        if self.states is not None:
            self.states.append(type(state)(*(part.clone() for part in state)))

    def _snapshot(self, rng: IslandNoise, state: Any, tally: Tally) -> Snapshot:
        tensors = fields_of("state", state)
        if self.states:
            together = [torch.stack(parts) for parts in zip(*self.states, strict=True)]
            tensors |= fields_of("kept", type(state)(*together))
        tensors["generators"] = generator_states(rng.generators)
        return Snapshot(tensors, asdict(tally))

    def _continue(
        self, snapshot: Snapshot, rng: IslandNoise, state: Any, tally: Tally
    ) -> tuple[Any, Tally]:
        """Restore the moves; `state` and `tally` serve as templates."""
        if self.states is not None:
            together = with_fields("kept", state, snapshot.tensors)
            self.states[:] = [type(state)(*parts) for parts in zip(*together, strict=True)]
        set_generators(rng.generators, snapshot.tensors["generators"])
        # A snapshot of an earlier version has no counts by particle.
        tally = replace(tally, **{name: list(values) for name, values in snapshot.values.items()})
        return with_fields("state", state, snapshot.tensors), tally

    def _settled(self, before: float | None, now: float) -> bool:
        # The rule needs a distance: particles that have not moved yet have not settled.
        if self.eta is None or not before:
            return False
        return abs(now - before) <= self.eta * before
