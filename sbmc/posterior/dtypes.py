"""Dtypes in which a posterior stores its positions, and their names in its settings."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch

from sbmc.checks import Phrase, require
from sbmc.log import logger
from sbmc.posterior.living.reference import carried_over

if TYPE_CHECKING:
    from sbmc.posterior.posterior import Posterior


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


def stored_as(posterior: Posterior, dtype: torch.dtype | str) -> Posterior:
    """The same posterior, with its positions rounded to a dtype in which they take fewer bytes.

    Args:
        posterior: is not changed.
        dtype: a floating-point type, or its name.

    Returns:
        Another posterior; it predicts in the dtype of the first.

    Raises:
        BadInput: it is no floating-point type, or positions are too large for it.
    """
    kind = as_dtype(dtype) if isinstance(dtype, str) else dtype
    rule = "a floating-point type such as 'bfloat16'"
    require(isinstance(kind, torch.dtype) and kind.is_floating_point, "dtype", rule, dtype)
    rounded = copy.copy(posterior)
    rounded.positions = posterior.positions.to(kind)
    finite = bool(torch.isfinite(rounded.positions).all())
    largest = Phrase(f"{kind}, which ends at {torch.finfo(kind).max:g}")
    require(finite, "dtype", "one with room for every position", largest)
    rounded.settings = {**posterior.settings, "dtype": str(posterior.dtype)}
    rounded.settings["store_dtype"] = str(kind)
    rounded._origin = None
    rounded.fitted_confidence = None  # it has learned the features of the unrounded particles
    rounded._reference = carried_over(posterior, rounded.origin)
    before, after = posterior.positions, rounded.positions
    error = (after.double() - before.double()).abs().max() / before.double().abs().max()
    logger.info(
        "positions as %s: %s bytes instead of %s; rounding moves them by up to %.2g of the largest",
        kind,
        f"{after.nbytes:,}",
        f"{before.nbytes:,}",
        float(error),
    )
    return rounded
