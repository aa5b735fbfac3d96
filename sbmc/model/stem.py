"""The first convolution, its ReLU and its 2 x 2 max-pooling as one step on prepared patches.

The inputs never change between evaluations, so the patches that the convolution reads are cut out
once, in pooling order: for each of the four corners of every pooling window, all windows. The
convolution is then one matrix product per example over all particles, pooling is the maximum of
four contiguous blocks, and the backward pass sends gradients only where a value won, without a look
at indices.

On a CPU with a C compiler the same is done by `sbmc.model.kernels.native`, several times faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sbmc.model.kernels import native
from sbmc.model.layers import ONCE, layer_of
from sbmc.model.particle_axis import Value, with_axis
from sbmc.model.recording import Input, Operation, Parameter, Recording, Reference, Result
from sbmc.model.rules import RESHAPING

WINDOW = 2
CORNERS = WINDOW * WINDOW


@dataclass(frozen=True)
class Stem:
    """A convolution of the inputs, followed by ReLU and 2 x 2 max-pooling in either order.

    Args:
        weight: the convolution's weight, as the recording refers to it.
        bias: its bias, likewise, if it has one.
        convolution: the layer.
        skipped: positions of operations that this step replaces.
        output: the position of the operation whose result this step gives.
    """

    weight: Reference
    bias: Reference | None
    convolution: nn.Conv2d
    skipped: frozenset[int]
    output: int

    def convolved(self, inputs: Tensor) -> tuple[int, int]:
        """Rows and columns that the convolution gives."""
        layer = self.convolution
        sizes = []
        for axis, length in enumerate(inputs.shape[-2:]):
            reach = layer.dilation[axis] * (layer.kernel_size[axis] - 1)
            padded = length + 2 * int(layer.padding[axis])
            sizes.append((padded - reach - 1) // layer.stride[axis] + 1)
        return sizes[0], sizes[1]

    @cached_property
    def planes(self) -> native.Planes:
        """How images are laid out for the C code."""
        return native.Planes(self.convolution)

    def prepared_bytes(self, inputs: Tensor) -> int:
        """Bytes that the patches of `inputs` take."""
        rows, columns = (size // WINDOW for size in self.convolved(inputs))
        readings = self.convolution.weight[0].numel() * CORNERS
        if native.usable(inputs, self.convolution):
            readings = self.planes.count
        return len(inputs) * readings * rows * columns * inputs.element_size()

    def prepare(self, inputs: Tensor) -> Tensor:
        """Patches `(examples, patch, corners * windows)` of images `(examples, channels, h, w)`.

        Where the C code can be used, its planes `(examples, planes * windows)`.
        """
        layer = self.convolution
        if native.usable(inputs, layer):
            return self.planes.prepare(inputs, self.convolved(inputs))
        assert not isinstance(layer.padding, str)  # `find` has seen to it
        patches = F.unfold(inputs, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
        grid = patches.unflatten(-1, self.convolved(inputs))
        rows, columns = (size // WINDOW for size in grid.shape[-2:])
        # The pooling leaves out an odd last row or column.
        grid = grid[..., : WINDOW * rows, : WINDOW * columns]
        corners = grid.unflatten(-1, (columns, WINDOW)).unflatten(-3, (rows, WINDOW))
        # (examples, patch, rows, i, columns, j) -> (examples, patch, i, j, rows, columns)
        ordered = corners.permute(0, 1, 3, 5, 2, 4)
        return ordered.reshape(*patches.shape[:2], CORNERS * rows * columns)

    def __call__(self, weight: Value, shift: Value | None, x: Value) -> Value:
        """Pooled values `(examples, out, windows)`, with a particle axis."""
        particles, out = weight.tensor.shape[:2]
        kernel = weight.tensor.reshape(particles, out, -1)
        if shift is None:
            bias = kernel.new_zeros(particles, out)
        else:
            bias = with_axis(shift, particles)
        stacked = x.axis == 0
        if x.tensor.ndim == (3 if stacked else 2):  # planes, not patches
            return Value(native.pooled_planes(kernel, bias, x.tensor, self.planes, stacked), 0)
        pooled = _PooledPatches.apply(kernel, bias, x.tensor, stacked)
        return Value(pooled, x.axis if x.axis == 0 else 1)


class _PooledPatches(torch.autograd.Function):
    """relu(max over corners(kernel @ patches) + bias), differentiable in kernel and bias.

    Shared patches `(examples, patch, corners * windows)` give `(examples, particles, out,
    windows)`; stacked ones `(particles, examples, ...)` give `(particles, examples, out, windows)`.
    """

    @staticmethod
    def forward(ctx: Any, kernel: Tensor, bias: Tensor, patches: Tensor, stacked: bool) -> Tensor:
        particles, out, patch = kernel.shape
        if stacked:
            examples = patches.shape[1]
            flat = patches.reshape(-1, patch, patches.shape[-1])
            left = kernel.unsqueeze(1).expand(-1, examples, -1, -1).reshape(-1, out, patch)
            shift = bias.repeat_interleave(examples, dim=0).unsqueeze(-1)
        else:
            examples = patches.shape[0]
            flat = patches
            left = kernel.reshape(1, particles * out, patch).expand(examples, -1, -1)
            shift = bias.reshape(1, -1, 1)
        y = torch.bmm(left, flat)
        rows, channels = y.shape[:2]
        first, second, third, fourth = y.view(rows, channels, CORNERS, -1).unbind(2)
        # The signs of these differences say who won; ties go to the first, as in torch's pooling.
        top, bottom = second - first, fourth - third
        upper, lower = torch.maximum(first, second), torch.maximum(third, fourth)
        halves = lower - upper
        pooled = torch.maximum(upper, lower, out=upper).add_(shift).clamp_min_(0)
        ctx.save_for_backward(flat, top, bottom, halves, pooled)
        ctx.shapes = (particles, examples, out, patch, stacked)
        windows = pooled.shape[-1]
        if stacked:
            return pooled.view(particles, examples, out, windows)
        return pooled.view(examples, particles, out, windows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        flat, top, bottom, halves, pooled = ctx.saved_tensors
        particles, examples, out, patch, stacked = ctx.shapes
        passes = torch.ops.aten.threshold_backward  # gradient where the second argument is positive
        active = passes(gradient.reshape(pooled.shape), pooled, 0)
        spread = pooled.new_empty(*pooled.shape[:2], CORNERS, pooled.shape[-1])
        first, second, third, fourth = spread.unbind(2)
        down = passes(active, halves, 0)
        up = active - down
        passes.grad_input(up, top, 0, grad_input=second)
        torch.sub(up, second, out=first)
        passes.grad_input(down, bottom, 0, grad_input=fourth)
        torch.sub(down, fourth, out=third)
        # Patches (patch, windows) times gradients (windows, channels): much faster than the other
        # order.
        products = torch.bmm(flat, spread.view(*pooled.shape[:2], -1).transpose(1, 2))
        if stacked:
            kernel = products.view(particles, examples, patch, out).sum(1).transpose(1, 2)
            bias = active.view(particles, examples, out, -1).sum((1, 3))
        else:
            kernel = products.sum(0).view(patch, particles, out).permute(1, 2, 0)
            bias = active.sum((0, 2)).view(particles, out)
        return kernel, bias, None, None


def find(recording: Recording) -> Stem | None:
    """The stem of a recorded model, if it begins with one and flattens what it gives."""
    readers = recording.readers()
    value: Reference = Input(0)
    chain: list[int] = []
    while len(chain) < 4 and len(readers.get(value, ())) == 1 and readers[value] != [-1]:
        chain += readers[value]
        value = Result(chain[-1])
    if len(chain) < 4:
        return None
    convolution, *pair, flatten = (recording.operations[position] for position in chain)
    pool = next((each for each in pair if each.kind == "aten.max_pool2d"), None)
    if not any(each.kind == "aten.relu" for each in pair) or pool is None:
        return None
    # Pooled windows come out flat, so what follows has to be a flattening of everything.
    flattens = flatten.kind.removeprefix("aten.") in RESHAPING
    if not flattens or flatten.shape is None or len(flatten.shape) != 2:
        return None
    if convolution.name != "aten.conv2d.default" or not _is_two_by_two(pool):
        return None
    x, weight, bias, *_, groups = convolution.arguments
    if (
        x != Input(0)
        or groups != 1
        or not isinstance(weight, Parameter)
        or flatten.shape[0] != ONCE
    ):
        return None
    layer = layer_of(recording, convolution)
    assert isinstance(layer, nn.Conv2d)
    return Stem(weight, bias, layer, frozenset(chain[:2]), chain[2])


def _is_two_by_two(pool: Operation) -> bool:
    _, kernel, stride, padding, dilation, ceil = pool.arguments

    def pair(value: list[int]) -> list[int]:
        return value * 2 if len(value) == 1 else value

    return (
        pair(kernel) == pair(stride or kernel) == [WINDOW, WINDOW]
        and pair(padding) == [0, 0]
        and pair(dilation) == [1, 1]
        and not ceil
    )
