"""A chain of layers with its likelihood in C: value and gradient in one pass, no autograd.

Convolutions, linear layers, poolings and activations, one after another, on examples that lie side
by side. What a layer reads and where it writes are lists of offsets, made once; zeros around an
image are part of the array that the layer before writes into, so that all positions are alike.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sbmc.likelihoods import Likelihood
from sbmc.model.chunks import Chunks
from sbmc.model.kernels.native.build import load
from sbmc.model.kernels.native.chain_batches import ChainBatches
from sbmc.model.kernels.native.densities import find_density
from sbmc.model.kernels.native.library import library_of
from sbmc.model.kernels.native.plan import (
    APPLY,
    NoiseColumns,
    NotAChain,
    Step,
    find_offsets,
    find_steps,
)
from sbmc.model.parameters import ParameterSpace

SOURCE = Path(__file__).with_name("chain.c")
FUNCTIONS = ("sbmc_chain", "sbmc_chain_outputs")
LANES = 8  # as there
# Examples that lie side by side: a multiple of 32, so many that arrays stay in cache.
FEWEST, MOST, BATCH_BYTES = 32, 256, 128 * 2**10
# A particle's parameters are read for every batch, and its sums are eight numbers for each.
MOST_PARAMETERS = 2**17
EXAMPLES, PARTICLES = 1280, 64


class _Layer(ctypes.Structure):
    """The structure of that name in chain.c."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("kind", "relu", "input", "output", "size_in")),
        *((name, ctypes.c_int64) for name in ("positions", "taps", "outputs", "apart")),
        *((name, ctypes.c_int64) for name in ("weight", "bias", "covers")),
        *((name, ctypes.c_void_p) for name in ("from_", "to", "tap")),
        ("function", ctypes.c_int64),
        *((name, ctypes.c_float) for name in ("a", "b")),
    )


class _Chain(ctypes.Structure):
    """The structure of that name in chain.c."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("layers", "batch", "features", "values", "outputs")),
        *((name, ctypes.c_int64) for name in ("dim", "likelihood", "targets", "noise", "noises")),
        *((name, ctypes.c_float) for name in ("precision", "df")),
        ("layer", ctypes.c_void_p),
    )


class Prepared(NamedTuple):
    """Examples side by side; the first axis is the batch."""

    inputs: Tensor  # (batches, features, batch)
    targets: Tensor  # (batches, numbers of a target, batch)


@dataclass
class ChainKernel:
    """Value and gradient of a chain of layers under a likelihood, in C.

    Args:
        layers: the modules by name, in the order in which they are called.
        space: the sampled parameters, which have to be all that the layers have.
        likelihood: categorical, Gaussian, Student's t, Bernoulli, or that of several labels.
        inputs: a few examples.

    Raises:
        NotAChain: there is a part that the C code does not cover.
    """

    layers: Sequence[tuple[str, nn.Module]]
    space: ParameterSpace
    likelihood: Likelihood
    inputs: Tensor
    name: str = field(default="chain", init=False)

    def __post_init__(self) -> None:
        if self.inputs.device.type != "cpu" or self.inputs.dtype != torch.float32:
            raise NotAChain(f"{self.inputs.dtype} on {self.inputs.device}")
        if self.space.dim > MOST_PARAMETERS:
            raise NotAChain(f"{self.space.dim} parameters are too many")
        self._steps = find_steps(self.layers, self.inputs)
        self._library = library()
        sizes = [math.prod(step.stored) for step in self._steps]
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        self._values = sum(sizes[1:])
        fitting = BATCH_BYTES // (4 * max(a + b for a, b in pairwise(sizes)))
        self.batch = min(MOST, max(FEWEST, fitting // FEWEST * FEWEST))
        offsets = dict(
            zip(
                self.space.names,
                [sum(self.space.sizes[:i]) for i in range(len(self.space.sizes))],
                strict=True,
            )
        )
        self._kept: list[Any] = []  # what the structures below point to
        made = []
        for i, (before, step) in enumerate(pairwise(self._steps)):
            begins = (0 if i == 0 else starts[i] - sizes[0], starts[i + 1] - sizes[0])
            made.append(self._layer(before, step, offsets, begins))
        self._outputs = self._steps[-1].shape[0]
        last = self.layers[-1][1]
        appended = last if isinstance(last, NoiseColumns) else None
        self._noise = slice(0, 0)  # where the appended numbers are in a parameter vector
        if appended is not None and appended.name in offsets:
            begin = offsets.pop(appended.name)
            self._noise = slice(begin, begin + appended.columns)
        elif appended is not None:
            raise NotAChain("noise that is not sampled")
        if len(offsets) != sum(len(list(s.module.parameters())) for s in self._steps if s.module):
            raise NotAChain("frozen parameters, or some outside the chain")
        columns = self._noise.stop - self._noise.start
        self.density = find_density(self.likelihood, self._outputs, columns)
        table = (_Layer * len(made))(*made)
        self._chain = _Chain(
            len(made),
            self.batch,
            sizes[0],
            self._values,
            self._outputs,
            self.space.dim,
            self.density.kind,
            self.density.targets,
            self._noise.start if columns else -1,
            columns,
            self.density.precision,
            self.density.df,
            ctypes.addressof(table),
        )
        self._kept.append(table)

    def _layer(
        self, before: Step, step: Step, offsets: dict[str, int], begins: tuple[int, int]
    ) -> _Layer:
        start, tap = find_offsets(before, step)
        to = (step.offsets[0] if step.kind == APPLY else step.offsets).flatten()
        apart, covers = math.prod(step.stored[1:]), False
        if step.kind != APPLY:
            read = (start.unsqueeze(1) + tap).flatten()
            apart = int(len(read.unique()) == len(read))
            covers = bool(apart) and len(read) == math.prod(before.stored)
        lists = [t.to(torch.int32).contiguous() for t in (start, to, tap)]
        self._kept += lists
        prefix = f"{step.name}." if step.name else ""
        weight, bias = offsets.get(prefix + "weight", -1), offsets.get(prefix + "bias", -1)
        if step.kind == APPLY and weight < 0:
            raise NotAChain(f"{step.name} has frozen weights")
        return _Layer(
            step.kind,
            step.relu,
            *begins,
            math.prod(before.stored),
            len(to),
            len(tap),
            step.shape[0],
            apart,
            weight,
            bias,
            covers,
            *(t.data_ptr() for t in lists),
            step.function,
            *step.numbers,
        )

    def chunks(self, examples: int) -> Chunks:
        """Pieces whose sums are added in float64, and which threads take side by side."""
        # A multiple of four pieces of about the same size: threads have the same work to do.
        pieces = 4 * -(-examples // EXAMPLES)
        size = -(-examples // (pieces * self.batch)) * self.batch
        together = -(-min(examples, EXAMPLES) // self.batch) * self.batch
        return Chunks(min(examples, size), PARTICLES, together=min(examples, together))

    def prepared_bytes(self, examples: int) -> int:
        """Memory that the examples take side by side."""
        batches = -(-examples // self.batch)
        numbers = int(self._chain.features) + self.density.targets
        return 4 * batches * self.batch * numbers

    def working_bytes(self, particles: int) -> int:
        """Memory that a call takes."""
        dim = self.space.dim
        return 4 * (2 * self._values * self.batch + LANES * dim) + 8 * particles * (dim + 1)

    def prepare(self, inputs: Tensor, targets: Tensor) -> Prepared:
        """Lay examples side by side, with zeros around images and after the last of them."""
        targets = targets.reshape(len(targets), -1).to(self.density.dtype)
        return Prepared(self.lay(inputs), self._side_by_side(targets))

    def lay(self, inputs: Tensor) -> Tensor:
        """Inputs side by side, as `outputs` reads them: `(batches, features, batch)`."""
        height, width = self._steps[0].margin
        batches = -(-len(inputs) // self.batch)
        laid = inputs.new_empty(batches, int(self._chain.features), self.batch)
        # Piece by piece: copies on the way would be as large as the data, twice.
        step = max(1, EXAMPLES // self.batch)
        for first in range(0, batches, step):
            some = inputs[first * self.batch : (first + step) * self.batch]
            if height or width:
                images = some.reshape(len(some), *self._steps[0].shape)
                some = F.pad(images, (width, width, height, height))
            laid[first : first + step] = self._side_by_side(some.flatten(1))
        return laid

    @property
    def steps(self) -> list[Step]:
        """What is computed, beginning with the inputs."""
        return self._steps

    @property
    def structure(self) -> ctypes.Structure:
        """The chain as the C code is told of it, good for as long as this kernel is."""
        return self._chain

    @property
    def constant(self) -> float:
        """What the likelihood adds to each example's value, whatever the parameters are."""
        return self.density.constant

    @property
    def largest(self) -> int:
        """Numbers of the largest array, for one example."""
        return max(math.prod(step.stored) for step in self._steps)

    def batches(self, inputs: Tensor, targets: Tensor) -> ChainBatches:
        """The same on mini-batches of examples; see `sbmc.model.kernels.choice.Batched`."""
        return ChainBatches(self, inputs, targets)

    def outputs(self, theta: Tensor, laid: Tensor, examples: int) -> Tensor:
        """What the chain gives, without likelihood and gradient.

        Args:
            theta: `(particles, dim)`.
            laid: inputs from `lay`.
            examples: how many they are; what fills the last batch is cut off.

        Returns:
            `(particles, examples, outputs)`.
        """
        theta = theta.detach().contiguous()
        batches = len(laid)
        acts = torch.zeros(self._values * self.batch)
        out = torch.empty(len(theta), batches, self._outputs, self.batch)
        arrays = theta, laid, acts, out
        self._library.sbmc_chain_outputs(
            ctypes.byref(self._chain),
            len(theta),
            batches,
            *(array.data_ptr() for array in arrays),
        )
        outputs = out.mT.flatten(1, 2)[:, :examples]
        if self._noise.stop == 0:
            return outputs
        noise = theta[:, self._noise].unsqueeze(1)
        return torch.cat([outputs, noise.expand(-1, examples, -1)], -1)

    def _side_by_side(self, tensor: Tensor) -> Tensor:
        full = F.pad(tensor, (0, 0, 0, -len(tensor) % self.batch))
        return full.unflatten(0, (-1, self.batch)).mT.contiguous()

    def __call__(
        self, theta: Tensor, prepared: Prepared, start: int, end: int, *, gradient: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """Sums over the examples `start` to `end`: log likelihood, and its gradient in `theta`.

        Args:
            theta: `(particles, dim)`.
            prepared: from `prepare`.
            start: the first example.
            end: after the last one.
            gradient: whether it is wanted.

        Returns:
            `(particles,)` and `(particles, dim)` or None, in float64.
        """
        theta = theta.detach().contiguous()
        particles = len(theta)
        value = torch.empty(particles, dtype=torch.float64)
        acts = torch.zeros(self._values * self.batch)
        slopes = sums = slope = None
        if gradient:
            slopes = torch.empty(self._values * self.batch)
            sums = torch.empty(self.space.dim * LANES)
            slope = torch.empty(particles, self.space.dim, dtype=torch.float64)
        arrays = theta, *prepared, acts, slopes, sums, value, slope
        self._library.sbmc_chain(
            ctypes.byref(self._chain),
            particles,
            start,
            end,
            *(0 if array is None else array.data_ptr() for array in arrays),
        )
        return value + self.density.constant * (end - start), slope


@cache
def _load() -> ctypes.CDLL:
    library = load(SOURCE, FUNCTIONS)
    numbers, arrays = [ctypes.c_int64] * 3, [ctypes.c_void_p] * 8
    library.sbmc_chain.argtypes = [ctypes.c_void_p, *numbers, *arrays]
    library.sbmc_chain.restype = None
    library.sbmc_chain_outputs.argtypes = [ctypes.c_void_p, *numbers[:2], *arrays[:4]]
    library.sbmc_chain_outputs.restype = None
    return library


def library() -> ctypes.CDLL:
    """The C code; looked for when it is first needed.

    Raises:
        NotAChain: there is none.
    """
    return library_of(_load)
