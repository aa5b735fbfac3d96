"""R-hat and nested R-hat: whether chains, or islands of chains, agree."""

from __future__ import annotations

from typing import Any

import numpy as np

from sbmc.checks import Phrase, require
from sbmc.diagnostics.draws import as_chains, as_draws
from sbmc.storage.arrays import as_floats
from sbmc.storage.optional import load_arviz


def rhat(draws: Any) -> float:
    """R-hat, rank-normalised and split (Vehtari et al. 2021): 1 if all chains agree.

    The root of (W (n−1)/n + B/n) / W, with W the variance within and B/n the variance of the means
    of half chains, on normal scores of the ranks; the larger one of that for the draws and that for
    their distance from the median. Above 1.01, chains need to be longer.

    Args:
        draws: of one scalar quantity, `(chains, draws)`, two chains or more.

    Returns:
        R-hat; infinite if no chain moves, NaN if nothing varies at all.

    Raises:
        BadInput: fewer than two chains or four draws, or not finite.

    Examples:
        >>> noise = np.random.default_rng(0).normal(size=(4, 1000))
        >>> round(rhat(noise), 2), round(rhat(noise + [[0], [0], [0], [3]]), 2)
        (1.0, 1.48)
    """
    values = as_chains(draws, fewest_chains=2)
    if np.ptp(values) == 0:
        return float("nan")
    if not np.ptp(values, axis=1).any():
        return float("inf")
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(load_arviz().rhat(values, method="rank"))


def nested_rhat(draws: Any, weights: Any = None) -> float:
    """Nested R-hat for many short chains (Margossian et al. 2024), down to one draw of each.

    K superchains of M chains each with N draws, means θ̄_mk of chains and θ̄_k of superchains:

        B = Σ_k (θ̄_k − θ̄)² / (K−1)
        W = (1/K) Σ_k [ Σ_m (θ̄_mk − θ̄_k)² / (M−1)  +  (1/M) Σ_m Σ_n (θ_nmk − θ̄_mk)² / (N−1) ]
        nested R-hat = √(1 + B / W),

    where a sum over a single chain or a single draw counts as zero. Independent draws from one
    distribution have E[B] = E[W] / (M N): √(1 + 1/M) is what to expect for one draw, not 1.

    Chains of a superchain must share something that differs between superchains, such as their
    start, so that the diagnostic can show whether they have forgotten it.

    Args:
        draws: of one scalar quantity, `(superchains, chains, draws)`.
        weights: of the chains, `(superchains, chains)`, as SMC has them; equal if not given. Means
            and variances are then weighted, with 1 − Σ w² for (M−1)/M.

    Returns:
        Nested R-hat; infinite if nothing varies inside superchains, NaN if nothing varies at all.

    Raises:
        BadInput: fewer than two superchains, one draw of one chain in each, bad weights, or not
            finite.

    Examples:
        >>> noise = np.random.default_rng(0).normal(size=(64, 10, 1))
        >>> apart = noise + np.arange(64)[:, None, None]
        >>> round(nested_rhat(noise), 2), round(nested_rhat(apart), 1)
        (1.05, 18.7)
    """
    values = as_draws(draws, ("superchains", "chains", "draws"))
    superchains, chains, count = values.shape
    rule = "of two or more superchains: nested R-hat needs at least two islands"
    require(superchains >= 2, "draws", rule, Phrase(f"{superchains}"))
    rule = "of several chains or several draws in each superchain"
    require(chains * count > 1, "draws", rule, Phrase("one draw of one chain"))
    return float(nested_rhats(values[..., None], as_weights(weights, values.shape[:2]))[0])


def as_weights(weights: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Weights `(superchains, chains)` whose rows sum to 1; equal ones for None."""
    if weights is None:
        return np.full(shape, 1 / shape[1])
    values = as_floats(weights, "weights")
    require(values.shape == shape, "weights", f"of shape {shape}", values.shape)
    total = values.sum(1, keepdims=True)
    good = np.isfinite(values).all() and (values >= 0).all() and (total > 0).all()
    require(bool(good), "weights", "finite, not negative, and not all zero", Phrase("others"))
    return values / total


def nested_rhats(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Nested R-hat of many quantities, `(superchains, chains, draws, quantities)`."""
    count = values.shape[2]
    weight = weights[..., None]
    chain_means = values.mean(2)
    means = (weight * chain_means).sum(1)
    between = means.var(0, ddof=1)
    spread = (weight * (chain_means - means[:, None]) ** 2).sum(1)
    # 1 − Σ w² is (M−1)/M for equal weights; zero for one chain, whose spread is zero too.
    freedom = 1 - (weight**2).sum(1)
    within = np.divide(spread, freedom, out=np.zeros_like(spread), where=freedom > 1e-12)
    if count > 1:
        within = within + (weight * values.var(2, ddof=1)).sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.sqrt(1 + between / within.mean(0))
