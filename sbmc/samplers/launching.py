"""Launches: the first steps of a warm-up, which particles take without a Metropolis test.

Every particle is launched for itself. One whose trajectory was sound moves. One whose trajectory
was unstable stays, and is launched again with a smaller step size of its own; the others go on
meanwhile, and they alone steer the step size of the island. A particle that has needed a smaller
step size keeps it for a while: it grows with every step that is accepted and shrinks with every one
that is not, until it is the island's again. What is left of the difference when the warm-up ends
is frozen, as the island's step size is.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from sbmc.samplers.chain_settings import ChainSettings

# How often a particle's own step size is shrunk at once when it has failed; it grows by one factor
# when it has not, and so three steps of four are accepted in the long run. With 1 in its snapshot,
# some of 400 chains from the prior, on a target with steep tails, were not launched in six steps.
FAILED_SHRINKS = 3


class Launch(NamedTuple):
    """How far the particles of an island are with their launches."""

    counts: Tensor  # (particles,) int64: launches that each particle has behind it
    shrinks: Tensor  # (particles,) int64: how often its own step size was shrunk

    def due(self, settings: ChainSettings) -> Tensor:
        """Which particles are still to be launched, `(particles,)` bool."""
        return self.counts < settings.launched

    def scale(self, settings: ChainSettings) -> Tensor:
        """Step size of each particle in units of the island's, `(particles,)` float64."""
        return settings.shrink ** self.shrinks.double()

    def after(
        self, settings: ChainSettings, launching: Tensor, accepted: Tensor
    ) -> tuple[Launch, float | None]:
        """What a step of the warm-up changes.

        Args:
            settings: the algorithm's settings.
            launching: which particles were launched in this step, `(particles,)` bool.
            accepted: which particles moved, `(particles,)` bool.

        Returns:
            The launches after it, and a factor for the island's step size if most particles were
            launched, so that acceptance says nothing of it; None otherwise.
        """
        most = 2 * int(launching.sum()) > len(launching)
        if not settings.adapt:
            # No step size is ever changed, and so an unstable launch is left out.
            return self._replace(counts=self.counts + launching), 1.0 if most else None
        counts = self.counts + (launching & accepted)
        failed = launching & ~accepted
        if most and 2 * int(failed.sum()) > int(launching.sum()):
            # The step size of the island is at fault, not a few of its particles.
            return self._replace(counts=counts), settings.shrink
        grown, shrunk = (self.shrinks - 1).clamp(min=0), self.shrinks + FAILED_SHRINKS
        changed = torch.where(accepted, grown, shrunk)
        own = failed | (self.shrinks > 0)
        return Launch(counts, torch.where(own, changed, self.shrinks)), 1.0 if most else None


def not_launched(particles: int, made: int = 0) -> Launch:
    """An island whose particles have made so many launches, with the island's step size."""
    return Launch(torch.full((particles,), made), torch.zeros(particles, dtype=torch.int64))
