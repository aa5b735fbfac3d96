"""How islands are combined: equally, or by their evidence."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from sbmc.checks import require_choice

WEIGHTINGS = ("evidence", "equal")
# Not for a user to choose: the islands are members of a mixture, with weights from unseen rows.
STACKED = "stacked"
# With fewer islands, the variation of their evidence cannot be estimated.
FEWEST_FOR_ERROR = 3


class Evidence(NamedTuple):
    """An estimate of the log normalising constant of the anchored posterior.

    It compares posteriors of one prior and one data set. It does not choose s: the anchor, and
    with it the prior, has seen the data.
    """

    log: float
    standard_error: float | None  # of the log, between islands; None for fewer than three


def mean_evidence(log_evidence: Tensor) -> Evidence:
    """The mean of the islands' evidence, as a log, with its standard error.

    Args:
        log_evidence: of each island, `(islands,)`.

    Returns:
        The estimate.
    """
    count = len(log_evidence)
    log_mean = float(torch.logsumexp(log_evidence.double(), 0)) - math.log(count)
    if count < FEWEST_FOR_ERROR:
        return Evidence(log_mean, None)
    relative = (log_evidence.double() - log_mean).exp()
    return Evidence(log_mean, float(relative.std() / math.sqrt(count)))


def island_weights(log_evidence: Tensor, within: Tensor, weighting: str) -> Tensor:
    """Weights `(islands, particles)` of all particles, summing to 1.

    Log-sum-exp until the last line, in float64.

    Args:
        log_evidence: `(islands,)`; of a mixture, the logs of the islands' weights.
        within: weights inside each island, `(islands, particles)`, every row summing to 1.
        weighting: `"evidence"`: islands count by their evidence; `"equal"`: all the same;
            `"stacked"`: by the weights of a mixture.

    Returns:
        The weights, float64.
    """
    by_number = weighting in ("evidence", STACKED)
    log_weights = log_evidence.double() if by_number else torch.zeros(len(within))
    across = torch.softmax(log_weights.double(), 0)
    return across.unsqueeze(1) * within.double().cpu()


def check_weighting(weighting: object, name: str = "island_weights") -> None:
    """Refuse an unknown way to combine islands."""
    require_choice(name, weighting, WEIGHTINGS)
