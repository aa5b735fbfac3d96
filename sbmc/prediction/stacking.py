"""Stacking: mixture weights that predict rows well which no member was fitted to.

K members give unseen row i the probabilities, or densities, p_ik. A mixture of them with weights w
has the log score Σ_i log Σ_k w_k p_ik (Yao et al., 2018). Taken as a log likelihood of w, with all
weights equally probable beforehand, it has a posterior, and the weights are its mean:

    w = E[(c + 1) / (n + K)],    c_k = the rows of n that member k accounts for.

Each member has one imagined row, so that weights are shrunk towards equal ones by K / (n + K). The
maximum of the log score would take members that the rows cannot tell apart for all or nothing; the
mean shares the weight between them.

The mean is computed by importance sampling. In the coordinates u_k = log w_k − log w_K the
posterior is a density on all of R^(K−1), with one peak. Draws from a Gaussian, and from one that is
twice as wide, are weighted by it. It has the posterior's peak, found by expectation maximisation,
and the curvature there, and then mean and covariance of the draws of the round before, until draws
are worth enough. The noise has a seed of its own, so that equal scores have equal
weights. (Gibbs sampling of which member accounts for which row is simpler, and hardly moves where
there are thousands of rows on most of which members agree.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from sbmc.checks import require

# Draws of a round that adapts the Gaussian and of the last one, at least so many; numbers, rows
# times members times draws, that a round may have, and that are in memory at a time.
ADAPTING, LAST, FEWEST, MOST_NUMBERS, NUMBERS_AT_ONCE = 1024, 2048, 1024, 2**25, 2**17
# Draws that a round has to be worth before the last one is made, as a part of them; rounds at most.
WORTH, ROUNDS = 0.3, 8
WIDER = 2.0
# Of the search for the peak, which need not be found exactly.
STEPS = 100


def stack(log_scores: Tensor) -> Tensor:
    """Find the weights of a mixture from the log scores of its members on unseen rows.

    Args:
        log_scores: log p_ik, `(rows, members)`; minus infinity says that a member thinks the row
            impossible.

    Returns:
        The weights, `(members,)` float64, summing to 1. Each is at least 1 / (rows + members).

    Raises:
        BadInput: there is no row or no member, or a score is NaN or plus infinity.

    Examples:
        >>> one_is_right = torch.tensor([[0.0, -50.0]] * 8)
        >>> [round(float(w), 3) for w in stack(one_is_right)]
        [0.9, 0.1]
    """
    require(log_scores.ndim == 2, "log_scores", "(rows, members)", tuple(log_scores.shape))
    rows, members = log_scores.shape
    require(rows >= 1 and members >= 1, "log_scores", "non-empty", tuple(log_scores.shape))
    usable = not bool(torch.isnan(log_scores).any() | (log_scores == torch.inf).any())
    require(usable, "log_scores", "numbers below plus infinity", log_scores.max().item())
    scores = log_scores.double().cpu()
    best = scores.max(1, keepdim=True).values
    # A row that all members think impossible says nothing about their weights.
    informative = best.flatten() > -torch.inf
    ratios = (scores - best)[informative].exp()
    if members == 1 or not len(ratios):
        return torch.full((members,), 1 / members, dtype=torch.float64)
    return _posterior_mean(ratios, rows - len(ratios))


class _Gaussian(NamedTuple):
    """An equal mixture of two Gaussians with one mean, of which the second is wider."""

    mean: Tensor  # (K − 1,)
    root: Tensor  # a Cholesky root of the covariance of the first

    def draw(self, count: int, rng: torch.Generator) -> Tensor:
        """So many draws, `(count, K − 1)`: the first half narrow, the second wide."""
        noise = torch.randn(count, len(self.mean), generator=rng, dtype=torch.float64)
        noise[count // 2 :] *= WIDER
        return self.mean + noise @ self.root.T

    def log_density(self, points: Tensor) -> Tensor:
        """Up to a constant."""
        away = torch.linalg.solve_triangular(self.root, (points - self.mean).T, upper=False)
        distance = away.square().sum(0) / 2
        wide = -distance / WIDER**2 - len(self.mean) * math.log(WIDER)
        volume = self.root.diagonal().log().sum()
        return torch.logaddexp(-distance, wide) - volume


def _posterior_mean(ratios: Tensor, uninformative: int) -> Tensor:
    """The mean of the weights, given p_ik up to a factor for each row, `(rows, members)`."""
    members = ratios.shape[1]
    rng = torch.Generator().manual_seed(0)
    most = max(FEWEST, MOST_NUMBERS // ratios.numel())
    gaussian = _at_the_peak(ratios)
    for _ in range(ROUNDS):
        points = gaussian.draw(min(ADAPTING, most), rng)
        importance = _importance(points, ratios, gaussian)
        if 1 / importance.square().sum() >= WORTH * len(points):
            break
        gaussian = _moments(points, importance)
    points = gaussian.draw(min(LAST, most), rng)
    importance = _importance(points, ratios, gaussian)
    weights = _weights(points)
    # Less noisy than the mean of the weights, and equal to it: the rows that each accounts for.
    accounted = torch.full((members,), 1 + uninformative / members, dtype=torch.float64)
    for some in _blocks(ratios, members * len(weights)):
        accounted += importance @ _shares(some, weights).sum(1)
    return accounted / accounted.sum()


def _at_the_peak(ratios: Tensor) -> _Gaussian:
    """The Gaussian with the posterior's peak and its curvature there."""
    rows, members = ratios.shape
    weights = torch.full((1, members), 1 / members, dtype=torch.float64)
    for _ in range(STEPS):
        weights = (_shares(ratios, weights).sum(1) + 1) / (rows + members)
    shares, each = _shares(ratios, weights)[0], weights[0]
    spread = (rows + members) * (each.diag() - each.outer(each))
    precision = (spread - shares.sum(0).diag() + shares.T @ shares)[:-1, :-1]
    # That of the prior is the least that there can be at the peak itself.
    least = members * (each.diag() - each.outer(each))[:-1, :-1]
    values, vectors = torch.linalg.eigh(precision)
    floor = float(torch.linalg.eigvalsh(least).min())
    covariance = (vectors / values.clamp(min=floor)) @ vectors.T
    return _Gaussian((each[:-1] / each[-1]).log(), torch.linalg.cholesky(covariance))


def _importance(points: Tensor, ratios: Tensor, gaussian: _Gaussian) -> Tensor:
    """What draws count, summing to 1: the posterior over the density that they are from."""
    weights = _weights(points)
    likelihood = torch.zeros(len(points), dtype=torch.float64)
    for some in _blocks(ratios, len(points)):
        likelihood += (weights @ some.T).log_().sum(1)
    # All weights are equally probable; in these coordinates, in proportion to their product.
    prior = weights.log().sum(1)
    return (likelihood + prior - gaussian.log_density(points)).softmax(0)


def _blocks(ratios: Tensor, numbers_each: int) -> tuple[Tensor, ...]:
    """Some rows at a time, so that what is computed of them stays in the cache."""
    return ratios.split(max(1, NUMBERS_AT_ONCE // numbers_each))


def _weights(points: Tensor) -> Tensor:
    zero = torch.zeros(len(points), 1, dtype=points.dtype)
    # Not zero, even where a draw is far out.
    return torch.cat([points, zero], 1).softmax(1).clamp(min=1e-300)


def _moments(points: Tensor, importance: Tensor) -> _Gaussian:
    mean = importance @ points
    away = points - mean
    covariance = (importance.unsqueeze(-1) * away).T @ away
    ridge = 1e-6 * covariance.diagonal().mean().clamp(min=1e-12)
    covariance += ridge * torch.eye(len(mean), dtype=torch.float64)
    return _Gaussian(mean, torch.linalg.cholesky(covariance))


def _shares(ratios: Tensor, weights: Tensor) -> Tensor:
    """How probably each member accounts for each row, `(draws, rows, members)`."""
    joint = weights.unsqueeze(1) * ratios
    return joint / joint.sum(-1, keepdim=True)
