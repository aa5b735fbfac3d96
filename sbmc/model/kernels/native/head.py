"""A linear layer over classes in C: value and gradient in two products that never leave the cache.

The products are those of `kernels.linear`, with one class less: softmax only knows differences
between classes, so that of two classes half the work is left. Their sums are written out in C for
such shapes, few columns and long rows; a general matrix product packs the data anew each time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from sbmc.likelihoods import Categorical, Likelihood
from sbmc.model.chunks import Chunks
from sbmc.model.kernels.linear import find_linear
from sbmc.model.kernels.native.build import load
from sbmc.model.kernels.native.head_batches import HeadBatches
from sbmc.model.kernels.native.library import library_of
from sbmc.model.kernels.native.plan import NotAChain
from sbmc.model.parameters import ParameterSpace

SOURCE = Path(__file__).with_name("head.c")
FUNCTIONS = ("sbmc_head_room", "sbmc_head")
BLOCK = 192  # as there
# Columns of all particles together: more of them share one reading of the data.
COLUMNS = 1024
# Parts of the data whose sums are added in float64, and which threads take side by side.
PARTS = 8
# The product of eight sums over so many classes is still a float32.
MOST_CLASSES = 10_000


class Rows(NamedTuple):
    """The data as they are, row after row."""

    inputs: Tensor  # (examples, features) float32
    labels: Tensor  # (examples,) int32


class HeadKernel:
    """Value and gradient of one linear layer under a categorical likelihood, in C.

    Args:
        layers: the modules by name: one linear layer, and perhaps such that pass everything on.
        space: the sampled parameters, which have to be all that the layer has.
        likelihood: categorical.
        inputs: a few examples.

    Raises:
        NotAChain: it is not that, or there is no compiler.
    """

    name = "head"

    def __init__(
        self,
        layers: Sequence[tuple[str, nn.Module]],
        space: ParameterSpace,
        likelihood: Likelihood,
        inputs: Tensor,
    ) -> None:
        self._layer = layer = find_linear(layers, space, inputs)
        if not isinstance(likelihood, Categorical):
            raise NotAChain("no classes")
        if inputs.device.type != "cpu" or inputs.dtype != torch.float32:
            raise NotAChain(f"{inputs.dtype} on {inputs.device}")
        self._outputs, self._features = layer.outputs, layer.features
        if not 2 <= self._outputs <= MOST_CLASSES:
            raise NotAChain(f"{self._outputs} classes")
        self._weight = layer.weight
        self._bias = -1 if layer.bias is None else layer.bias
        self._dim = space.dim
        self._library = library_of(_load)

    def chunks(self, examples: int) -> Chunks:
        """Whole blocks of rows, `PARTS` times at most; as many particles as share them."""
        blocks = -(-examples // (PARTS * BLOCK))
        particles = max(1, COLUMNS // self._outputs)
        return Chunks(min(examples, blocks * BLOCK), particles)

    def prepared_bytes(self, examples: int) -> int:
        """Labels of half the size; nothing is made of the inputs."""
        return 4 * examples

    def working_bytes(self, particles: int) -> int:
        """Memory that a call takes: weights and their gradients, columns of a block, and sums."""
        return 4 * self._room(particles) + 8 * particles * (self._dim + 1)

    def prepare(self, inputs: Tensor, targets: Tensor) -> Rows:
        """The data as they are."""
        return Rows(inputs.contiguous(), targets.to(torch.int32))

    def __call__(
        self, theta: Tensor, prepared: Rows, start: int, end: int, *, gradient: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """Sums over the examples `start` to `end`; see `sbmc.model.kernels.choice.Kernel`."""
        theta = theta.detach().contiguous()
        particles = len(theta)
        work = torch.empty(self._room(particles))
        value = torch.empty(particles, dtype=torch.float64)
        slope = torch.empty(particles, self._dim, dtype=torch.float64) if gradient else None
        sizes = particles, self._outputs, self._features, self._dim, self._weight, self._bias
        inputs, labels = prepared.inputs[start:end], prepared.labels[start:end]
        arrays = theta, inputs, labels, work, value, slope
        addresses = (0 if array is None else array.data_ptr() for array in arrays)
        self._library.sbmc_head(*sizes, end - start, *addresses)
        return value, slope

    def batches(self, inputs: Tensor, targets: Tensor) -> HeadBatches:
        """The same on mini-batches of examples; see `sbmc.model.kernels.choice.Batched`."""
        return HeadBatches(self._layer, self._dim, inputs, targets)

    def _room(self, particles: int) -> int:
        return int(self._library.sbmc_head_room(particles, self._outputs, self._features))


@cache
def _load() -> ctypes.CDLL:
    library = load(SOURCE, FUNCTIONS)
    library.sbmc_head_room.argtypes = [ctypes.c_int64] * 3
    library.sbmc_head_room.restype = ctypes.c_int64
    library.sbmc_head.argtypes = [ctypes.c_int64] * 7 + [ctypes.c_void_p] * 6
    library.sbmc_head.restype = None
    return library
