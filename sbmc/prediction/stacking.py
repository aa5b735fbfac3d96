"""Stacking: mixture weights that predict rows best which no member was fitted to.

K members give unseen row i the probabilities, or densities, p_ik. The weights of their mixture are

    w = argmax over the simplex of  Σ_i log Σ_k w_k p_ik,        (Yao et al., 2018)
    w ← (1 − λ) w + λ / K,  λ = K / (n + K).

The objective is concave. The second line shrinks the weights towards equal ones, the more the fewer
rows there are: with n rows, K / (n + K) is the share that one imagined row for each member has.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sbmc.checks import require

# A step of expectation-maximisation never lowers the objective. At the optimum no member has a mean
# ratio p_ik / Σ_j w_j p_ij above 1, and that is how the end is known.
MOST_STEPS, TOLERANCE = 20_000, 1e-6


def stack(log_scores: Tensor) -> Tensor:
    """Find the weights of the mixture with the highest log score on unseen rows, shrunk.

    Args:
        log_scores: log p_ik, `(rows, members)`; minus infinity says that a member thinks the row
            impossible.

    Returns:
        The weights, `(members,)` float64, summing to 1. Each is at least 1 / (rows + members).

    Raises:
        BadInput: there is no row or no member, or a score is NaN or plus infinity.

    Example:
        >>> sure_and_wrong = torch.tensor([[-0.1, -1.0], [-9.0, -1.0]])
        >>> [round(float(w), 2) for w in stack(sure_and_wrong)]
        [0.33, 0.67]
    """
    require(log_scores.ndim == 2, "log_scores", "(rows, members)", tuple(log_scores.shape))
    rows, members = log_scores.shape
    require(rows >= 1 and members >= 1, "log_scores", "non-empty", tuple(log_scores.shape))
    usable = not bool(torch.isnan(log_scores).any() | (log_scores == torch.inf).any())
    require(usable, "log_scores", "numbers below plus infinity", log_scores.max().item())
    scores = log_scores.double()
    best = scores.max(1, keepdim=True).values
    # A row that all members think impossible says nothing about their weights.
    informative = best.flatten() > -torch.inf
    weights = torch.full((members,), 1 / members, dtype=torch.float64)
    if bool(informative.any()):
        weights = _maximise((scores - best)[informative].exp(), weights)
    share = members / (rows + members)
    return (1 - share) * weights + share / members


def _maximise(ratios: Tensor, weights: Tensor) -> Tensor:
    for _ in range(MOST_STEPS):
        gain = (ratios / (ratios @ weights).unsqueeze(1)).mean(0)
        weights = weights * gain
        if float(gain.max()) < 1 + TOLERANCE:
            break
    return weights / weights.sum()
