"""Waste-free SMC: every state of the moves joins the population, not only the last.

Where standard SMC runs N chains of M steps and keeps their ends, the waste-free sampler (Dau and
Chopin, 2022) draws N ancestors, runs chains of length M from them, the ancestor being the first
state, and keeps all N·M states. A temperature costs M − 1 evaluations of each chain. The states of
a chain are dependent, but all have the target's distribution, and there are M times as many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.smc.mutation import Mutation, MutationInfo


@dataclass(frozen=True)
class WasteFreeMutation:
    """Chains of length M from each of the selected particles, with all states kept.

    Args:
        mutation: the moves, each island with the same number M − 1 of them, and no `eta`.
    """

    mutation: Mutation

    def __call__(
        self, rng: IslandNoise, state: Any, temperature: Tensor
    ) -> tuple[Any, MutationInfo, int]:
        """Move, and return M members of the population for each selected particle, side by side."""
        states: list[Any] = []
        _, info, _ = replace(self.mutation, states=states)(rng, state, temperature)
        # (M, islands * N, ...) to (islands * N * M, ...): the copies of an ancestor side by side.
        together = [torch.stack(parts, 1).flatten(0, 1) for parts in zip(*states, strict=True)]
        return type(state)(*together), info, len(states)
