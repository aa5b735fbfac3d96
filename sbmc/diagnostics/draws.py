"""Checks the draws that are given to diagnostics."""

from __future__ import annotations

from typing import Any

import numpy as np

from sbmc.checks import Phrase, require
from sbmc.storage.arrays import as_floats

# With fewer draws there is no useful autocorrelation, and ArviZ gives NaN.
FEWEST_DRAWS = 4


def as_draws(draws: Any, axes: tuple[str, ...]) -> np.ndarray:
    """Finite float64 values of a tensor, array or nested list, with one axis for each name.

    Raises:
        BadInput: another number of axes, an empty one, or a value that is not finite.
    """
    values = as_floats(draws, "draws", numbers=True)
    shape = f"an array ({', '.join(axes)})"
    good = values.ndim == len(axes) and values.size > 0
    require(good, "draws", shape, Phrase(f"shape {values.shape}"))
    finite = bool(np.isfinite(values).all())
    require(finite, "draws", "finite", Phrase("NaN or infinity"))
    return values


def as_chains(draws: Any, fewest_chains: int = 1) -> np.ndarray:
    """Draws `(chains, draws)`, checked to be enough for a comparison."""
    values = as_draws(draws, ("chains", "draws"))
    chains, count = values.shape
    rule = f"at least {FEWEST_DRAWS} draws of each chain"
    require(count >= FEWEST_DRAWS, "draws", rule, Phrase(f"{count}"))
    rule = f"of at least {fewest_chains} chains"
    require(chains >= fewest_chains, "draws", rule, Phrase(f"{chains}"))
    return values
