"""How many examples and particles go through a model together: a rule of shapes and limits."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from sbmc.checks import require

# Activations that stay in cache are several times faster than fresh large temporaries, which cost
# page faults; chunks of very few examples lose to the overhead of calls.
ACTIVATION_BYTES = 6 * 2**20
SMALLEST_CHUNK = 24
# Of a particle that goes through alone: products of matrices want more rows than a cache holds, and
# threads that make many short calls wait for each other.
ALONE_BYTES, ALONE_CHUNK = 32 * 2**20, 48
PARTICLES, SHARING_PARTICLES, MOST_PARTICLES = 10, 256, 4096


@dataclass(frozen=True)
class Chunks:
    """How a batch is cut up: stored with a run, since it decides the last bits.

    Args:
        examples: how many go through together with `particles` particles.
        particles: how many go through together, at most.
        alone: how many examples go through with one particle; None means `examples`, whatever the
            number of particles.
        together: how many examples go through where there are several chunks of particles, which
            keep all cores busy, so that examples need not be cut up for that; None means as many
            as else.
    """

    examples: int
    particles: int
    alone: int | None = None
    together: int | None = None

    def examples_for(self, particles: int, *, several: bool = False) -> int:
        """Examples that go through together with so many particles, from 1 to `particles`.

        An example takes bytes a + b·particles, and the examples that fit are in inverse proportion
        to it. So their inverse lies on a line, between those of `alone` and of `examples`.

        Args:
            particles: of the chunk.
            several: whether there are other chunks of particles.

        Examples:
            >>> [Chunks(40, 10, alone=155).examples_for(n) for n in (1, 2, 5, 10)]
            [155, 117, 68, 40]
            >>> Chunks(256, 64, together=1000).examples_for(64, several=True)
            1000
        """
        if several and self.together is not None:
            return self.together
        if self.alone is None or self.particles == 1:
            return self.examples
        steps, more = self.particles - 1, particles - 1
        below = self.examples * (steps - more) + self.alone * more
        return self.alone * self.examples * steps // below

    def split(self, particles: int) -> list[slice]:
        """Chunks of so many particles, as few as are allowed and as even as can be.

        Examples:
            >>> [(part.start, part.stop) for part in Chunks(100, 64).split(80)]
            [(0, 40), (40, 80)]
        """
        count = -(-particles // self.particles)
        ends = [particles * i // count for i in range(count + 1)]
        return [slice(start, end) for start, end in pairwise(ends)]


class Footprint(NamedTuple):
    """Bytes that an example takes on its way through the model: once, and for each particle."""

    shared: int
    own: int


def choose_chunks(
    footprint: Footprint, examples: int, limit: int | None = None, *, alone: bool = False
) -> Chunks:
    """The deterministic rule: examples whose activations stay in cache, for a chunk of particles.

    Where an example's shared part outweighs what each particle adds, as in a linear head, more
    particles share one reading of it.

    Args:
        footprint: bytes per example.
        examples: how many there are.
        limit: bytes that a chunk may take; by what stays in cache if not given.
        alone: whether particles may go through one by one, where a few examples of one particle
            are work enough. More of them would only push each other out of the cache.

    Returns:
        The chunk sizes.

    Raises:
        BadInput: a limit that leaves no room for one example and one particle.

    Examples:
        >>> choose_chunks(Footprint(shared=28_000, own=12_500), 1_200)
        Chunks(examples=41, particles=10, alone=155, together=None)
        >>> choose_chunks(Footprint(shared=3_072, own=32), 25_000)
        Chunks(examples=1024, particles=96, alone=2026, together=None)
        >>> choose_chunks(Footprint(shared=0, own=200_000), 1_000, alone=True)
        Chunks(examples=167, particles=1, alone=None, together=None)
    """
    room_for = ACTIVATION_BYTES if limit is None else min(limit, ACTIVATION_BYTES)
    least = footprint.shared + footprint.own
    rule = f"enough for one example and one particle, {least} bytes more than the data take"
    require(room_for >= least or limit is None, "memory_limit", rule, limit)
    if alone and PARTICLES * SMALLEST_CHUNK * footprint.own > room_for:
        fit = ALONE_BYTES // least if limit is None else max(1, min(limit, ALONE_BYTES) // least)
        return Chunks(_evenly(examples, max(ALONE_CHUNK, fit) if limit is None else fit), 1)
    # A whole small data set leaves room for many particles; calls, not arithmetic, are dear then.
    room = (room_for - examples * footprint.shared) // (examples * footprint.own)
    particles = max(PARTICLES, room, min(SHARING_PARTICLES, footprint.shared // footprint.own))
    particles = min(MOST_PARTICLES, particles)

    smallest = SMALLEST_CHUNK
    if limit is not None:
        smallest = 1
        particles = max(1, min(particles, (room_for - footprint.shared) // footprint.own))

    def fitting(together: int) -> int:
        fit = room_for // (footprint.shared + together * footprint.own)
        return min(examples, max(smallest, fit))

    return Chunks(fitting(particles), particles, fitting(1))


def _evenly(examples: int, most: int) -> int:
    """The size of the fewest chunks of at most so many examples, all of about the same size."""
    return -(-examples // -(-examples // most))
