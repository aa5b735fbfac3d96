"""Names of dtypes in the settings of a posterior."""

from __future__ import annotations

import torch

from sbmc.checks import require


def as_dtype(name: str) -> torch.dtype:
    """The dtype that settings name.

    Raises:
        BadInput: torch has no such dtype.

    Examples:
        >>> as_dtype("torch.bfloat16")
        torch.bfloat16
    """
    dtype = getattr(torch, name.removeprefix("torch."), None)
    require(isinstance(dtype, torch.dtype), "dtype", "the name of a torch.dtype", name)
    assert isinstance(dtype, torch.dtype)  # or it was refused
    return dtype
