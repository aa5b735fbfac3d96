"""Draws around one trained network, as a posterior."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from sbmc.checks import is_number, require
from sbmc.islands.cost import Cost
from sbmc.islands.island import IslandReport
from sbmc.likelihoods import Likelihood
from sbmc.model.noise import require_noise
from sbmc.model.parameters import ParameterSpace, Selection
from sbmc.posterior.posterior import Posterior


def single_network_posterior(
    model: nn.Module,
    space: ParameterSpace,
    likelihood: Likelihood,
    positions: Tensor,
    *,
    shared_epochs: float,
    seconds: float,
    settings: dict[str, Any],
    forward_epochs: float = 0.0,
) -> Posterior:
    """One island of equally weighted draws that share the cost of one network.

    Args:
        model: the network that the draws replace.
        space: the parameters that `positions` holds.
        likelihood: the likelihood of the outputs.
        positions: the draws, `(samples, dim)`.
        shared_epochs: passes over the training data that were made once for all draws: counted as
            the anchor's, as those of a MAP are, so that epochs per particle are zero.
        seconds: measured, without the network's training.
        settings: all that decided the result, as plain values.
        forward_epochs: passes without gradient for each draw.

    Returns:
        The posterior, `(1, samples, dim)`.

    Raises:
        BadInput: a likelihood that learns its noise, which a single network has not.
    """
    require_noise(likelihood, space)
    return Posterior(
        model,
        space,
        likelihood,
        positions.unsqueeze(0),
        log_evidence=torch.zeros(1, dtype=torch.float64),
        islands=[IslandReport(0, "completed", forward_epochs=forward_epochs)],
        cost=Cost(0.0, forward_epochs, shared_epochs, shared_epochs, seconds),
        settings={**settings, "particles": len(positions), "islands": 1},
    )


def trained_epochs(model: nn.Module, epochs: float | None) -> float:
    """The cost of the network: as given, or from its training history."""
    if epochs is None:
        return float(getattr(getattr(model, "history", None), "epochs", 0))
    good = is_number(epochs) and 0 <= epochs < math.inf
    require(good, "anchor_epochs", "a non-negative number", epochs)
    return float(epochs)


def describe_variance(prior_variance: float | Tensor) -> float | str:
    """The prior variance as a plain value: a number, or a text for a vector."""
    if isinstance(prior_variance, Tensor) and prior_variance.numel() > 1:
        return f"{prior_variance.numel()} values"
    return float(prior_variance)


def describe_parameters(parameters: Selection) -> str:
    """The choice of parameters as a plain value."""
    return parameters if isinstance(parameters, str) else "predicate"
