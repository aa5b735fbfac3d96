"""Putting particles back to where they were healthy, for the phases of the self-tuning sampler."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from sbmc.samplers.auto_state import AutoRun, AutoState
from sbmc.samplers.noise import IslandNoise, island_rows


def put_back(
    rng: IslandNoise,
    state: AutoState,
    runs: Sequence[AutoRun],
    island: int,
    which: Tensor,
    *,
    late: bool,
) -> None:
    """Put some particles of an island back to where they were healthy, with momenta drawn anew."""
    rows = island_rows([island], rng.particles)[which].to(state.position.device)
    renew_momenta(rng, state, runs, island, which)
    moved_back = (state.position[rows] != state.healthy[rows]).any(-1)
    state.position[rows] = state.healthy[rows]
    # Where particles have gone back on mini-batches, their gradient is not known any more, and the
    # next step begins without its half kick.
    state.gradient[rows[moved_back]] = 0.0
    runs[island].energy = healthy_energy_of(state, rng, island)
    if late:
        runs[island].note_restarts(which)


def renew_momenta(
    rng: IslandNoise, state: AutoState, runs: Sequence[AutoRun], island: int, which: Tensor
) -> None:
    """Draw the momenta of some particles of an island anew."""
    rows = island_rows([island], rng.particles)[which].to(state.position.device)
    fresh = rng.select([island]).normal(state.position.shape[1], state.position.dtype)
    state.momentum[rows] = fresh[which.to(fresh.device)]
    runs[island].arrived = 0.0


def rows_of(island: int, rng: IslandNoise) -> slice:
    """The rows of an island's particles."""
    return slice(island * rng.particles, (island + 1) * rng.particles)


def healthy_energy_of(state: AutoState, rng: IslandNoise, island: int) -> float:
    """U per coordinate where the particles of an island were last healthy."""
    return float(state.healthy_energy[rows_of(island, rng)].mean()) / state.position.shape[1]


def by_island(rng: IslandNoise, which: Tensor) -> list[tuple[int, Tensor]]:
    """Islands with any of these particles, and which those are, `(particles,)` bool."""
    if not bool(which.any()):
        return []
    rows = which.view(-1, rng.particles).cpu()
    return [(i, each) for i, each in enumerate(rows) if bool(each.any())]
