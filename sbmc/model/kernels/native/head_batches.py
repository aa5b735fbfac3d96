"""Mini-batches of a linear layer over classes in C, each particle with examples of its own.

Rows of the data are read where they are, twice: for the outputs and for the gradient. Nothing is
gathered, and no product packs its operands anew.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from sbmc.model.kernels.linear import Linear
from sbmc.model.kernels.native.build import load
from sbmc.model.kernels.native.library import library_of
from sbmc.model.kernels.native.scratch import Scratch

SOURCE = Path(__file__).with_name("head_batches.c")
FUNCTIONS = ("sbmc_head_batches_room", "sbmc_head_batches")


class _Head(ctypes.Structure):
    """The structure `head` in head_batches.c."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("outputs", "features", "dim", "weight", "bias")),
        *((name, ctypes.c_void_p) for name in ("inputs", "labels")),
    )


class HeadBatches:
    """Sums over mini-batches of a head's examples; see `sbmc.model.kernels.choice.BatchKernel`.

    Args:
        layer: the linear layer.
        dim: of a particle's vector.
        inputs: `(examples, features)` float32.
        labels: `(examples,)`.

    Raises:
        NotAChain: there is no compiler.
    """

    name = "head"

    def __init__(self, layer: Linear, dim: int, inputs: Tensor, labels: Tensor) -> None:
        self._library = library_of(_load)
        self._arrays = inputs.contiguous(), labels.to(torch.int32).contiguous()
        bias = -1 if layer.bias is None else layer.bias
        addresses = (array.data_ptr() for array in self._arrays)
        self._head = _Head(layer.outputs, layer.features, dim, layer.weight, bias, *addresses)
        self._scratch = Scratch()

    def __call__(self, theta: Tensor, index: Tensor, factor: Tensor, out: Tensor) -> Tensor:
        """Sums over the examples of each particle, and their gradients times `factor` in `out`."""
        particles, size = index.shape
        value = torch.empty(particles, dtype=torch.float64)
        head = ctypes.byref(self._head)
        with self._scratch.lend(self._library.sbmc_head_batches_room(head, size)) as work:
            arrays = theta, index, factor, work, value, out
            addresses = (array.data_ptr() for array in arrays)
            self._library.sbmc_head_batches(head, particles, size, index.stride(0), *addresses)
        return value


@cache
def _load() -> ctypes.CDLL:
    library = load(SOURCE, FUNCTIONS)
    library.sbmc_head_batches_room.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.sbmc_head_batches_room.restype = ctypes.c_int64
    numbers, arrays = [ctypes.c_int64] * 3, [ctypes.c_void_p] * 6
    library.sbmc_head_batches.argtypes = [ctypes.c_void_p, *numbers, *arrays]
    library.sbmc_head_batches.restype = None
    return library
