"""The log score of a posterior on labelled rows: how probable it found what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sbmc.model.data import Examples, rows, tree_map
from sbmc.posterior.input_batches import weighted_particles

if TYPE_CHECKING:
    from sbmc.posterior.posterior import Posterior

ROWS_AT_ONCE = 1_000


def log_scores(posterior: Posterior, examples: Examples) -> Tensor:
    """Log predictive density of each row, log Σ_i w_i p(y | x, θ_i).

    Args:
        posterior: the weighted ensemble.
        examples: rows in the model's dtype, with targets as its likelihood takes them.

    Returns:
        `(rows,)` float64.
    """
    theta, weights, chosen = weighted_particles(posterior)
    log_weights = weights.log()
    parts = []
    with torch.no_grad():
        for start in range(0, len(examples), ROWS_AT_ONCE):
            batch = rows(examples.inputs, start, start + ROWS_AT_ONCE)
            batch = tree_map(lambda tensor: tensor.to(theta.device), batch)
            targets = examples.targets[start : start + ROWS_AT_ONCE].to(theta.device)
            outputs = posterior.outputs(theta, batch, chosen=chosen)
            densities = posterior.likelihood.log_prob(outputs, targets).double().cpu()
            parts.append(torch.logsumexp(densities + log_weights.unsqueeze(1), 0))
    return torch.cat(parts)
