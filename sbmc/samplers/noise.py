"""Random numbers for islands that run as one batch: each island draws from its own generator."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


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

    def per_particle(self, values: Sequence[float] | Tensor) -> Tensor:
        """One value per island, float64, repeated for each of its particles."""
        each = torch.as_tensor(values, dtype=torch.float64)
        return each.repeat_interleave(self.particles).to(self.device)

    def select(self, islands: Sequence[int]) -> IslandNoise:
        """The noise of some of the islands (the same generators, not copies)."""
        return IslandNoise([self.generators[i] for i in islands], self.particles, self.device)


def island_rows(islands: Sequence[int], each: int) -> Tensor:
    """The rows of some islands in a batch in which every island has `each` rows."""
    return (torch.tensor(islands).unsqueeze(1) * each + torch.arange(each)).flatten()
