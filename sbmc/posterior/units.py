"""A posterior over a network of standardised data, as one that takes and gives original units."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sbmc.likelihoods import Rescaled
from sbmc.posterior.posterior import Posterior

# Buffers of the network, with names that no network has by chance.
INPUT_SHIFT, INPUT_SCALE = "input_units_shift", "input_units_scale"


class Units(NamedTuple):
    """Values in original units are shift + scale · standardised value."""

    shift: Tensor  # (columns,)
    scale: Tensor  # (columns,), positive


def in_original_units(posterior: Posterior, inputs: Units, targets: Units | None) -> Posterior:
    """The same particles, for inputs and targets in their original units.

    The network standardises its inputs itself, before anything else. The likelihood is the one of
    the standardised targets, with the change of units in it (`Rescaled`); outputs of the network
    stay as they are. Predictions are computed in float64, so that inputs of a large mean and a
    small spread keep their digits.

    Args:
        posterior: of standardised inputs `(examples, columns)` and targets.
        inputs: of each column.
        targets: of each output; None for classes.

    Returns:
        Another posterior.
    """
    changed = copy.copy(posterior)
    changed._model = with_input_units(posterior.model, inputs)
    changed.positions = posterior.positions.double()
    changed.settings = {key: v for key, v in posterior.settings.items() if key != "store_dtype"}
    changed._origin = None
    if targets is not None:
        changed._likelihood = Rescaled(posterior.likelihood, targets.shift, targets.scale)
    return changed


def with_input_units(model: nn.Module, units: Units) -> nn.Module:
    """A copy of a network, in float64, that standardises its inputs before anything else."""
    network = copy.deepcopy(model).double()
    own = next(network.parameters())
    network.register_buffer(INPUT_SHIFT, units.shift.to(own))
    network.register_buffer(INPUT_SCALE, units.scale.to(own))
    network.register_forward_pre_hook(_standardise)
    return network


def _standardise(module: nn.Module, arguments: Any) -> tuple[Tensor, ...]:
    inputs, *others = arguments
    shift, scale = getattr(module, INPUT_SHIFT), getattr(module, INPUT_SCALE)
    return (torch.as_tensor(inputs) - shift) / scale, *others
