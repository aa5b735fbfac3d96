"""Autocorrelations of a chain, their sum, and the effective sample size.

With ρ_t the correlation of two draws of a stationary chain, t apart,

    IACT = 1 + 2 Σ_{t ≥ 1} ρ_t,

and the mean of n draws has the variance of the mean of n / IACT independent ones. ρ_t is estimated
within and between chains (Vehtari et al. 2021, equation 10), so that chains which disagree count as
correlated, and the sum is cut off by Geyer's initial monotone sequence. ArviZ does the arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sbmc.diagnostics.draws import as_chains, as_draws
from sbmc.storage.optional import load_arviz


def autocorrelation(draws: Any) -> np.ndarray:
    """Autocorrelation function of each chain, ρ_t for t = 0, 1, ….

    The autocovariance at lag t is Σ_i (x_i − x̄)(x_{i+t} − x̄) / n around the chain's own mean, and
    ρ_t is that over its value at lag 0.

    Args:
        draws: of one scalar quantity, `(chains, draws)`.

    Returns:
        `(chains, lags)`, with as many lags as draws; ρ_0 = 1. NaN for a chain that never moves.

    Raises:
        BadInput: not two axes, empty, or not finite.

    Examples:
        >>> autocorrelation([[1.0, -1.0, 1.0, -1.0]]).round(2)
        array([[ 1.  , -0.75,  0.5 , -0.25]])
    """
    values = as_draws(draws, ("chains", "draws"))
    with np.errstate(invalid="ignore"):
        rho = load_arviz().autocorr(values, axis=-1)
    rho[np.ptp(values, axis=1) == 0] = np.nan
    return rho


def integrated_autocorrelation_time(draws: Any) -> float:
    """IACT = 1 + 2 Σ ρ_t of all chains together (the paper's appendix on IACT).

    Args:
        draws: of one scalar quantity, `(chains, draws)`.

    Returns:
        Draws for each independent one: 1 for independent draws, less if they alternate. NaN for a
        quantity that never changes.

    Raises:
        BadInput: fewer than four draws, or not finite.

    Examples:
        >>> noise = np.random.default_rng(0).normal(size=(4, 1000))
        >>> round(integrated_autocorrelation_time(noise), 1)
        1.0
    """
    values = as_chains(draws)
    if np.ptp(values) == 0:
        return float("nan")
    return float(values.size / load_arviz().ess(values, method="identity"))


def effective_sample_size(draws: Any) -> float:
    """How many independent draws the draws of all chains are worth (bulk-ESS of ArviZ).

    n / IACT, computed on ranks (so that heavy tails do not spoil it) and on half chains (so that a
    drift is seen): for well-mixed chains of moderate tails, close to n / IACT of the draws.

    Args:
        draws: of one scalar quantity, `(chains, draws)`.

    Returns:
        The number; NaN for a quantity that never changes.

    Raises:
        BadInput: fewer than four draws, or not finite.

    Examples:
        >>> noise = np.random.default_rng(0).normal(size=(4, 1000))
        >>> 3500 < effective_sample_size(noise) < 4500
        True
    """
    values = as_chains(draws)
    if np.ptp(values) == 0:
        return float("nan")
    return float(load_arviz().ess(values, method="bulk"))
