"""A step of Adam for many members in C, in one pass over the numbers."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from sbmc.model.kernels.native.build import load
from sbmc.model.kernels.native.library import is_available, library_of

SOURCE = Path(__file__).with_name("adam.c")
FUNCTIONS = ("sbmc_adam",)


class Adam(ctypes.Structure):
    """The structure `adam` in adam.c.

    Args:
        first: decay rate of the mean of the gradient, β₁.
        second: decay rate of the mean of its square, β₂.
        rate: the learning rate over 1 − β₁ᵗ.
        root: the root of 1 − β₂ᵗ.
        epsilon: ε.
        kept: the part of the weights that a decay apart from the gradient leaves; 1 without one.
    """

    _fields_ = tuple(
        (name, ctypes.c_float) for name in ("first", "second", "rate", "root", "epsilon", "kept")
    )


def available() -> bool:
    """Whether there is C code to use."""
    return is_available(_load)


def advance(
    step: Adam,
    theta: Tensor,
    gradient: Tensor,
    centres: Tensor | None,
    precision: Tensor,
    moments: tuple[Tensor, Tensor],
) -> Tensor:
    """One step in place, on the loss whose gradient is given plus ‖θ − centre‖² / (2·variance).

    Args:
        step: the step's numbers.
        theta: parameters `(members, dim)`, overwritten; all tensors are contiguous float32.
        gradient: of the loss without the prior's part, `(members, dim)`.
        centres: where the prior is centred, `(members, dim)`; None for 0.
        precision: of the prior, `(dim,)`.
        moments: decayed means of the gradient and of its square, `(members, dim)`, overwritten.

    Returns:
        The prior's part of the loss before the step, `(members,)` float64.

    Raises:
        NotAChain: there is no C code.
    """
    library = library_of(_load)
    penalty = torch.empty(len(theta), dtype=torch.float64)
    arrays = theta, gradient, centres, precision, *moments, penalty
    addresses = (0 if array is None else array.data_ptr() for array in arrays)
    library.sbmc_adam(ctypes.byref(step), *theta.shape, *addresses)
    return penalty


@cache
def _load() -> ctypes.CDLL:
    library = load(SOURCE, FUNCTIONS)
    arrays = [ctypes.c_void_p] * 7
    library.sbmc_adam.argtypes = [ctypes.c_void_p, *[ctypes.c_int64] * 2, *arrays]
    library.sbmc_adam.restype = None
    return library
