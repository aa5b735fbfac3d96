"""Mini-batches of a chain of layers in C, each particle with examples of its own.

The data stay where they are, row after row. The C code gathers the examples of a particle side by
side, computes value and gradient, and goes on to the next particle. A particle's numbers do not
depend on which others are computed with it, so that chunks of particles may be given to threads.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sbmc.model.kernels.native.build import load
from sbmc.model.kernels.native.library import library_of
from sbmc.model.kernels.native.scratch import Scratch

if TYPE_CHECKING:
    from sbmc.model.kernels.native.chain import ChainKernel

SOURCE = Path(__file__).with_name("batches.c")
FUNCTIONS = ("sbmc_batches_room", "sbmc_batches")
# Examples that go through together: so many that the largest array is no larger than this.
PIECE_BYTES = 2**20
FEWEST, MOST, MULTIPLE = 32, 256, 16


class _Examples(ctypes.Structure):
    """The structure `examples` in batches.c."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("features", "margins")),
        *((name, ctypes.c_void_p) for name in ("offset", "inputs", "targets")),
    )


class ChainBatches:
    """Sums over mini-batches of a chain's examples; see `sbmc.model.kernels.choice.BatchKernel`.

    Args:
        chain: the kernel for all data, which knows the layers.
        inputs: `(examples, ...)` float32.
        targets: `(examples,)` labels or `(examples, outputs)`.

    Raises:
        NotAChain: there is no compiler.
    """

    name = "chain"

    def __init__(self, chain: ChainKernel, inputs: Tensor, targets: Tensor) -> None:
        self._library = library_of(_load)
        self._chain = chain  # whose lists the C code reads
        steps = chain.steps
        self._arrays = (
            steps[0].offsets.flatten().to(torch.int32).contiguous(),
            inputs.flatten(1).contiguous(),
            targets.reshape(len(targets), -1).to(chain.density.dtype).contiguous(),
        )
        margins = any(step.margin != (0, 0) for step in steps)
        addresses = (array.data_ptr() for array in self._arrays)
        self._examples = _Examples(self._arrays[1].shape[1], margins, *addresses)
        fitting = PIECE_BYTES // (4 * chain.largest)
        self._piece = min(MOST, max(FEWEST, fitting // MULTIPLE * MULTIPLE))
        self._scratch = Scratch()

    def __call__(self, theta: Tensor, index: Tensor, factor: Tensor, out: Tensor) -> Tensor:
        """Sums over the examples of each particle, and their gradients times `factor` in `out`."""
        particles, size = index.shape
        piece = piece_of(size, self._piece)
        value = torch.empty(particles, dtype=torch.float64)
        chain = ctypes.byref(self._chain.structure)
        with self._scratch.lend(self._library.sbmc_batches_room(chain, piece)) as work:
            arrays = theta, index, factor, work, value, out
            addresses = (array.data_ptr() for array in arrays)
            sizes = particles, size, index.stride(0), piece
            self._library.sbmc_batches(chain, ctypes.byref(self._examples), *sizes, *addresses)
        return value + self._chain.constant * size if self._chain.constant else value


@cache
def piece_of(size: int, most: int) -> int:
    """Examples of a piece of a batch, all computed alike: the last one is filled up for nothing.

    Args:
        size: of the batch.
        most: examples that a piece may have, a multiple of `MULTIPLE` from `FEWEST` on.

    Returns:
        The multiple that leaves least to fill up; the largest of several.

    Examples:
        >>> [piece_of(size, most=48) for size in (20, 50, 64, 256)]
        [32, 32, 32, 32]
        >>> [piece_of(size, most=96) for size in (50, 90, 100, 256)]
        [64, 96, 64, 64]
    """
    choices = range(FEWEST, most + 1, MULTIPLE)
    return min(choices, key=lambda piece: (-(-size // piece) * piece, -piece))


@cache
def _load() -> ctypes.CDLL:
    library = load(SOURCE, FUNCTIONS)
    library.sbmc_batches_room.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.sbmc_batches_room.restype = ctypes.c_int64
    structures, numbers, arrays = 2, 4, 6
    library.sbmc_batches.argtypes = [
        *[ctypes.c_void_p] * structures,
        *[ctypes.c_int64] * numbers,
        *[ctypes.c_void_p] * arrays,
    ]
    library.sbmc_batches.restype = None
    return library
