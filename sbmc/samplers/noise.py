"""Random numbers for islands that run as one batch: each island draws from its own generator.

Normal numbers come from torch's generators, or from the counter-based stream of
`sbmc.model.kernels.native.steps`, which is several times faster and which threads can share.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sbmc.model.kernels.native import steps


class IslandNoise:
    """Noise for a batch of islands, the particles of one island after those of another.

    The noise of an island depends on its own generator only: it is the same whether the island runs
    alone or in a batch.

    Args:
        generators: one per island.
        particles: particles per island.
        device: where the numbers are used; they are drawn on the CPU, so that they are the same on
            every device.
    """

    def __init__(
        self,
        generators: Sequence[torch.Generator],
        particles: int,
        device: torch.device | str = "cpu",
    ) -> None:
        self.generators = list(generators)
        self.particles = particles
        self.device = device

    def normal(self, dim: int, dtype: torch.dtype) -> Tensor:
        """Standard normal `(islands * particles, dim)`."""
        rows = [torch.randn(self.particles, dim, generator=g, dtype=dtype) for g in self.generators]
        return torch.cat(rows).to(self.device)

    def uniform(self) -> Tensor:
        """Uniform on [0, 1), one per particle, float64."""
        rows = [
            torch.rand(self.particles, generator=g, dtype=torch.float64) for g in self.generators
        ]
        return torch.cat(rows).to(self.device)

    def uniform_per_island(self) -> Tensor:
        """Uniform on [0, 1), one per island, float64, on the CPU."""
        return torch.cat([torch.rand(1, generator=g, dtype=torch.float64) for g in self.generators])

    def permutations(self, count: int) -> Tensor:
        """Permutations of `count` items, one for each particle: `(islands * particles, count)`."""
        rows = [
            torch.randperm(count, generator=g)
            for g in self.generators
            for _ in range(self.particles)
        ]
        return torch.stack(rows).to(self.device)

    def keys(self, count: int) -> Tensor:
        """Integers of 62 bits, `count` for each particle: `(islands * particles, count)`."""
        shape = self.particles, count
        rows = [torch.randint(2**62, shape, generator=g) for g in self.generators]
        return torch.cat(rows).to(self.device)

    def shared(self) -> IslandNoise:
        """The same generators, for what the particles of an island share."""
        return IslandNoise(self.generators, 1, self.device)

    def per_particle(self, values: Sequence[float] | Tensor) -> Tensor:
        """One value per island, float64, repeated for each of its particles."""
        each = torch.as_tensor(values, dtype=torch.float64)
        return each.repeat_interleave(self.particles).to(self.device)

    def select(self, islands: Sequence[int]) -> IslandNoise:
        """The noise of some of the islands (the same generators, not copies)."""
        return IslandNoise([self.generators[i] for i in islands], self.particles, self.device)


class PhiloxNoise(IslandNoise):
    """The same with normal numbers from a counter-based stream, Philox4x32-10.

    An island's key is the first number of its generator. A normal number depends on the key, on how
    many draws the island has made, on the particle and on the index in its vector: neither on other
    islands, nor on threads or chunks. All other numbers are the generators'.

    Args:
        generators: one per island; a key is drawn from each.
        particles: particles per island.
        device: where the numbers are wanted.
        state: `(islands, 2)` keys and draws of a stream that goes on; None for a new one.

    Examples:
        >>> rng = PhiloxNoise([torch.Generator().manual_seed(0)], particles=2)
        >>> rng.normal(3, torch.float32).shape, rng.state[0, 1].item()
        (torch.Size([2, 3]), 1)
    """

    def __init__(
        self,
        generators: Sequence[torch.Generator],
        particles: int,
        device: torch.device | str = "cpu",
        state: Tensor | None = None,
    ) -> None:
        super().__init__(generators, particles, device)
        if state is None:
            keys = [torch.randint(-(2**63), 2**63 - 1, (1,), generator=g) for g in generators]
            state = torch.stack([torch.cat(keys), torch.zeros(len(keys), dtype=torch.int64)], 1)
        self._keys, self._draws = (column.clone() for column in state.cpu().T.contiguous())
        self._rows: list[int] | None = None  # of the islands' draws; None for all of them

    @property
    def state(self) -> Tensor:
        """Keys and numbers of draws of the islands, `(islands, 2)` int64, to go on from."""
        draws = self._draws if self._rows is None else self._draws[self._rows]
        return torch.stack([self._keys, draws], 1)

    def streams(self) -> steps.Streams:
        """Whose noise the particles have in the draw that is made now; the next is another one."""
        rows: slice | list[int] = slice(None) if self._rows is None else self._rows
        draws = self._draws[rows].clone()
        self._draws[rows] += 1
        return steps.Streams(self.particles, self._keys, draws)

    def normal(self, dim: int, dtype: torch.dtype) -> Tensor:
        """Standard normal `(islands * particles, dim)`, of float32's precision."""
        return steps.normal(self.streams(), dim).to(device=self.device, dtype=dtype)

    def select(self, islands: Sequence[int]) -> PhiloxNoise:
        """The noise of some of the islands (the same streams, not copies)."""
        generators = [self.generators[i] for i in islands]
        some = PhiloxNoise(generators, self.particles, self.device, self.state[list(islands)])
        everywhere = range(len(self.generators)) if self._rows is None else self._rows
        some._draws, some._rows = self._draws, [everywhere[i] for i in islands]
        if some._rows == list(range(len(self._draws))):
            some._rows = None
        return some


def kick(
    rng: IslandNoise,
    position: Tensor,
    gradient: Tensor,
    centre: Tensor,
    *,
    keep: float = 1.0,
    force: float,
    temperature: float,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """keep·x + force·(λ·gradient − z) + scale·ξ with ξ ~ N(0, I), and who is not finite after it.

    In C, in one pass over the numbers, where they are float32 on the CPU; else by torch.

    Args:
        rng: ξ is drawn for each particle.
        position: x, `(particles, dim)`: what is kicked, a position or a momentum.
        gradient: of the log likelihood, `(particles, dim)`.
        centre: z, `(particles, dim)`, whose prior is N(0, I).
        keep: what is kept of x.
        force: the time for which the force acts.
        temperature: λ.
        scale: standard deviation of the noise.

    Returns:
        The result, and which particles have a number in it that is not finite, `(particles,)`.
    """
    dim, dtype = position.shape[1], position.dtype
    cpu = position.device.type == "cpu" and dtype == torch.float32
    if cpu and steps.available():
        return steps.kick(
            position,
            gradient,
            centre,
            rng.streams() if isinstance(rng, PhiloxNoise) else rng.normal(dim, dtype),
            keep=keep,
            force=force,
            temperature=temperature,
            scale=scale,
        )
    noise = rng.normal(dim, dtype)
    pull = temperature * gradient - centre
    moved = keep * position + force * pull + scale * noise
    return moved, ~torch.isfinite(moved).all(-1)


def island_rows(islands: Sequence[int], each: int) -> Tensor:
    """The rows of some islands in a batch in which every island has `each` rows."""
    return (torch.tensor(islands).unsqueeze(1) * each + torch.arange(each)).flatten()
