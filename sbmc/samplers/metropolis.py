"""The Metropolis test that full-gradient kernels share, and its info."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class MetropolisInfo(NamedTuple):
    """The info of a step; the leading axis is the particle."""

    acceptance: Tensor  # (particles,) acceptance probabilities
    accepted: Tensor  # (particles,) bool
    non_finite: Tensor  # (particles,) bool: proposals rejected because they were not finite


def metropolis_test(log_ratio: Tensor, uniform: Tensor) -> MetropolisInfo:
    """Accept with probability min(1, exp(log ratio)); non-finite ratios are rejected and marked.

    Args:
        log_ratio: `(particles,)`, log of π(z') q(z | z') / π(z) q(z' | z).
        uniform: `(particles,)`, on [0, 1).

    Returns:
        Acceptance probabilities, and which proposals were accepted or not finite.

    Examples:
        >>> info = metropolis_test(torch.tensor([0.5, -1.0, float("nan")]), torch.full((3,), 0.5))
        >>> info.accepted.tolist(), info.non_finite.tolist()
        ([True, False, False], [False, False, True])
    """
    finite = torch.isfinite(log_ratio)
    acceptance = torch.where(finite, log_ratio.clamp(max=0).exp(), 0.0)
    return MetropolisInfo(acceptance, uniform < acceptance, ~finite)
