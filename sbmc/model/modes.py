"""Modes of torch that change what a computation gives, and in which nothing is started."""

from __future__ import annotations

import torch

from sbmc.checks import BadInput


def refuse_modes(function: str, *, gradients: bool = True) -> None:
    """Refuse to start inside `torch.autocast` or `torch.inference_mode`.

    Autocast would compute in another precision than the one that is checked, compared with other
    paths and recorded. Tensors that are made in inference mode take part in no gradient.

    Args:
        function: what is called, for the message.
        gradients: whether it needs gradients.

    Raises:
        BadInput: such a mode is on.

    Examples:
        >>> with torch.autocast("cpu"):
        ...     refuse_modes("fit")
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `fit` must be called outside torch.autocast, which would change \
numbers in silence, but got a call inside it. sbmc.Compute(dtype=torch.bfloat16) chooses a \
precision.
    """
    cast = torch.is_autocast_enabled("cpu")
    cast = cast or (torch.cuda.is_available() and torch.is_autocast_enabled("cuda"))
    if cast:
        raise BadInput(
            f"`{function}` must be called outside torch.autocast, which would change numbers in "
            "silence, but got a call inside it. sbmc.Compute(dtype=torch.bfloat16) chooses a "
            "precision."
        )
    if gradients and torch.is_inference_mode_enabled():
        raise BadInput(
            f"`{function}` must be called outside torch.inference_mode, in which there are no "
            "gradients, but got a call inside it. torch.no_grad does no harm."
        )
