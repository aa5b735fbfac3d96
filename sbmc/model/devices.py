"""The device that an argument stands for, if this machine has it."""

from __future__ import annotations

from typing import Any

import torch

from sbmc.checks import BadInput, describe_value, require
from sbmc.storage.arrays import has_values


def as_device(value: Any, name: str = "device") -> torch.device:
    """Read a device, and make sure that it can compute.

    Args:
        value: a `torch.device`, or its name.
        name: the argument.

    Returns:
        The device.

    Raises:
        BadInput: torch knows no such device, or this machine has none.

    Examples:
        >>> as_device("cpu")
        device(type='cpu')
    """
    known = isinstance(value, str | torch.device)
    try:
        device = torch.device(value) if known else None
    except RuntimeError:
        device = None
    require(device is not None, name, "a device that torch knows", value)
    assert device is not None  # for the type checker
    try:
        tensor = torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise BadInput(
            f"`{name}` must be one that this machine and this build of torch have, but got "
            f"{describe_value(value)}. Leave it out to compute where the model is."
        ) from error
    rule = "a device that computes; a meta device has shapes without values"
    require(has_values(tensor), name, rule, value)
    return device
