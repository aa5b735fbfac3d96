"""Launches: the first steps of a warm-up, which particles take without a Metropolis test.

Every particle is launched separately. A particle whose trajectory was stable moves. A particle
whose trajectory was unstable stays, and is launched again with a smaller step size of its own. The
other particles continue meanwhile, and the island's step size is adapted to them only. A particle's
own step size grows with every step that is accepted and shrinks with every step that is rejected,
until it equals the island's again. A difference that remains at the end of the warm-up is frozen,
as the island's step size is.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from sbmc.samplers.chain_settings import ChainSettings

# By how many factors a particle's own step size is shrunk after a failure; it grows by one factor
# after a success, so that three steps of four are accepted in the long run. With 1 instead, some of
# 400 chains from the prior, on a target with steep tails, were not launched in six steps.
FAILED_SHRINKS = 3


class Launch(NamedTuple):
    """The launches that the particles of an island have made."""

    counts: Tensor  # (particles,) int64: launches that each particle has made
    shrinks: Tensor  # (particles,) int64: how often its own step size was shrunk

    def due(self, settings: ChainSettings) -> Tensor:
        """Which particles have launches left to make, `(particles,)` bool."""
        return self.counts < settings.launched

    def scale(self, settings: ChainSettings) -> Tensor:
        """Step size of each particle in units of the island's, `(particles,)` float64."""
        return settings.shrink ** self.shrinks.double()

    def after(
        self, settings: ChainSettings, launching: Tensor, accepted: Tensor
    ) -> tuple[Launch, float | None]:
        """The launches after a step of the warm-up.

        Args:
            settings: the algorithm's settings.
            launching: which particles were launched in this step, `(particles,)` bool.
            accepted: which particles moved, `(particles,)` bool.

        Returns:
            The launches, and a factor for the island's step size if most particles were launched,
            so that the acceptance says nothing about the step size; None otherwise.
        """
        most = 2 * int(launching.sum()) > len(launching)
        if not settings.adapt:
            # Step sizes are fixed, so that an unstable launch is not repeated.
            return self._replace(counts=self.counts + launching), 1.0 if most else None
        counts = self.counts + (launching & accepted)
        failed = launching & ~accepted
        if most and 2 * int(failed.sum()) > int(launching.sum()):
            # Most launches failed, so that the step size of the island is too large.
            return self._replace(counts=counts), settings.shrink
        grown, shrunk = (self.shrinks - 1).clamp(min=0), self.shrinks + FAILED_SHRINKS
        changed = torch.where(accepted, grown, shrunk)
        adjusted = failed | (self.shrinks > 0)
        return Launch(counts, torch.where(adjusted, changed, self.shrinks)), 1.0 if most else None


def not_launched(particles: int, launches: int = 0) -> Launch:
    """Launches of an island whose particles have made so many, with the island's step size."""
    return Launch(torch.full((particles,), launches), torch.zeros(particles, dtype=torch.int64))
