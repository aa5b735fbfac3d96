"""Stacking: mixture weights that predict rows well which no member was fitted to.

K members give unseen row i the probabilities, or densities, p_ik. A mixture of them with weights w
has the log score Σ_i log Σ_k w_k p_ik (Yao et al., 2018). Taken as a log likelihood of w, with all
weights equally probable beforehand, it has a posterior, and the weights are its mean:

    w = E[(c + 1) / (n + K)],    c_k = the rows of n that member k accounts for.

Each member has one imagined row, so that weights are shrunk towards equal ones by K / (n + K). The
maximum of the log score would take members that the rows cannot tell apart for all or nothing; the
mean shares the weight between them. It is computed by Gibbs sampling: which member accounts for a
row, given the weights, and the weights, given that. The noise has a seed of its own, so that equal
scores have equal weights.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sbmc.checks import require

# Chains, as many as fit into so many numbers; sweeps that are forgotten, and sweeps that count.
MOST_CHAINS, FEWEST_CHAINS, NUMBERS_AT_ONCE = 32, 4, 2**18
FORGOTTEN, SWEEPS = 20, 100


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


def _posterior_mean(ratios: Tensor, uninformative: int) -> Tensor:
    """The mean of the weights, given p_ik up to a factor for each row, `(rows, members)`."""
    rows, members = ratios.shape
    chains = min(MOST_CHAINS, max(FEWEST_CHAINS, NUMBERS_AT_ONCE // ratios.numel()))
    rng = torch.Generator().manual_seed(0)
    weights = torch.full((chains, members), 1 / members, dtype=torch.float64)
    total = torch.zeros(members, dtype=torch.float64)
    for sweep in range(FORGOTTEN + SWEEPS):
        shares = _shares(ratios, weights)
        draw = torch.rand(chains, rows, 1, generator=rng, dtype=torch.float64)
        member = (draw > shares.cumsum(-1)).sum(-1).clamp(max=members - 1)
        counts = torch.nn.functional.one_hot(member, members).sum(1).double()
        gammas = torch._standard_gamma(counts + 1, generator=rng)
        weights = gammas / gammas.sum(-1, keepdim=True)
        if sweep >= FORGOTTEN:
            total += (shares.sum(1) + 1).mean(0)
    accounted = total / SWEEPS + uninformative / members
    return accounted / accounted.sum()


def _shares(ratios: Tensor, weights: Tensor) -> Tensor:
    """How probably each member accounts for each row, `(chains, rows, members)`."""
    joint = weights.unsqueeze(1) * ratios
    return joint / joint.sum(-1, keepdim=True)
