"""A step of stochastic gradient descent with momentum for many members in C."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from sbmc.model.kernels.native.build import load
from sbmc.model.kernels.native.library import is_available, library_of

SOURCE = Path(__file__).with_name("sgd.c")
FUNCTIONS = ("sbmc_sgd",)


class SGD(ctypes.Structure):
    """The structure `sgd` in sgd.c.

    Args:
        rate: the learning rate.
        momentum: what is kept of the velocity.
    """

    _fields_ = tuple((name, ctypes.c_float) for name in ("rate", "momentum"))


def available() -> bool:
    """Whether there is C code to use."""
    return is_available(_load)


def advance(
    step: SGD,
    theta: Tensor,
    gradient: Tensor,
    centres: Tensor | None,
    precision: Tensor,
    velocity: Tensor,
) -> Tensor:
    """One step in place, on the loss whose gradient is given plus ‖θ − centre‖² / (2·variance).

    Args:
        step: the step's numbers.
        theta: parameters `(members, dim)`, overwritten; all tensors are contiguous float32.
        gradient: of the loss without the prior's part, `(members, dim)`.
        centres: where the prior is centred, `(members, dim)`; None for 0.
        precision: of the prior, `(dim,)`.
        velocity: decayed sum of the gradients, `(members, dim)`, overwritten.

    Returns:
        The prior's part of the loss before the step, `(members,)` float64.

    Raises:
        NotAChain: there is no C code.
    """
    library = library_of(_load)
    penalty = torch.empty(len(theta), dtype=torch.float64)
    arrays = theta, gradient, centres, precision, velocity, penalty
    addresses = (0 if array is None else array.data_ptr() for array in arrays)
    library.sbmc_sgd(ctypes.byref(step), *theta.shape, *addresses)
    return penalty


@cache
def _load() -> ctypes.CDLL:
    library = load(SOURCE, FUNCTIONS)
    arrays = [ctypes.c_void_p] * 6
    library.sbmc_sgd.argtypes = [ctypes.c_void_p, *[ctypes.c_int64] * 2, *arrays]
    library.sbmc_sgd.restype = None
    return library
