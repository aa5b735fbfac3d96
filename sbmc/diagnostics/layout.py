"""Which rows of a posterior's positions are draws of one chain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import is_whole, require
from sbmc.posterior.posterior import Posterior


@dataclass(frozen=True)
class Layout:
    """Islands of chains of draws; a particle is a chain here."""

    islands: int
    chains: int
    draws: int

    def by_chain(self, values: Tensor) -> Tensor:
        """From `(islands, rows, ...)`, draw after draw, to `(islands, chains, draws, ...)`."""
        # An island's draws were put one after the other, each with all particles.
        return values.unflatten(1, (self.draws, self.chains)).transpose(1, 2)


def find_layout(posterior: Posterior, draws: int | None = None) -> Layout:
    """How many draws each chain of a posterior has.

    Args:
        posterior: the result of `fit`, or an ensemble.
        draws: per chain; by default from the settings of the run, or 1 if they do not have it.

    Returns:
        The layout.

    Raises:
        BadInput: `draws` does not divide the rows of an island.
    """
    islands, rows, _ = posterior.positions.shape
    if draws is None:
        draws = (posterior.settings.get("sampler_settings") or {}).get("draws") or 1
    good = is_whole(draws) and draws >= 1 and rows % draws == 0
    require(good, "draws", f"a positive divisor of the {rows} rows of an island", draws)
    return Layout(islands, rows // draws, draws)


def as_quantities(layout: Layout, values: Tensor) -> np.ndarray:
    """`(islands, chains, draws, quantities)` float64, of `(islands * rows, quantities)`."""
    rows = values.detach().to("cpu", torch.float64).unflatten(0, (layout.islands, -1))
    return layout.by_chain(rows).contiguous().numpy()
