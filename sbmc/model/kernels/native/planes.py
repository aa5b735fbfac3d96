"""The first convolution, its ReLU and its 2 x 2 max-pooling in C, on prepared planes.

A corner of a pooling window reads its image at distances from the window's first pixel; the other
corners and taps read it at the same distances, shifted. So an image is cut up once, by distance:
plane (a, b) has, for every window, the pixel a rows below and b columns right of its first. Nine
taps at four corners are 36 readings but 16 planes, and each is read in order.
"""

from __future__ import annotations

import ctypes
import math
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sbmc.log import logger
from sbmc.model.kernels.native.build import NoLibrary, load
from sbmc.model.kernels.native.shipped import OFF, wanted
from sbmc.model.threads import Lock

WINDOW = 2
SOURCE = Path(__file__).with_name("stem.c")
FUNCTIONS = ("sbmc_stem_forward", "sbmc_stem_backward")
LANES, WIDE = 8, 16  # as there


_SIZES = ("groups", "members", "examples", "out", "patch", "windows", "planes", "right", "down")


class _Sizes(ctypes.Structure):
    """The argument of that name in stem.c."""

    _fields_ = tuple((name, ctypes.c_int64) for name in _SIZES)


class Planes:
    """How a convolution's images are laid out for the C code.

    Args:
        layer: without groups, with zeros as padding.
    """

    def __init__(self, layer: nn.Conv2d) -> None:
        assert not isinstance(layer.padding, str)
        self._padding = layer.padding
        self._stride = layer.stride
        axes = list(zip(layer.kernel_size, layer.stride, layer.dilation, strict=True))
        # Distances are whole numbers of steps, from 0 to the last tap of the last corner.
        self._step = [math.gcd(stride, dilation) for _, stride, dilation in axes]
        self._shape = [
            (stride + dilation * (kernel - 1)) // step + 1
            for (kernel, stride, dilation), step in zip(axes, self._step, strict=True)
        ]
        self.count = layer.in_channels * math.prod(self._shape)
        self.patch = layer.in_channels * math.prod(layer.kernel_size)
        down, right = (
            stride // step for stride, step in zip(layer.stride, self._step, strict=True)
        )
        self.down, self.right = WIDE * down * self._shape[1], WIDE * right
        rows, columns = (
            torch.arange(kernel) * (dilation // step)
            for (kernel, _, dilation), step in zip(axes, self._step, strict=True)
        )
        grid = torch.arange(self.count).view(layer.in_channels, *self._shape)
        self.offsets = (WIDE * grid[:, rows][:, :, columns]).flatten()

    def prepare(self, inputs: Tensor, convolved: tuple[int, int]) -> Tensor:
        """Planes `(examples, planes * windows)` of images `(examples, channels, h, w)`.

        All planes of sixteen windows, then all of the next sixteen, and of what is left.
        """
        # The pooling leaves out an odd last row or column.
        rows, columns = (size // WINDOW for size in convolved)
        height, width = (int(pad) for pad in self._padding)
        padded = F.pad(inputs, (width, width, height, height))
        every = [WINDOW * stride for stride in self._stride]
        cut = [
            padded[:, :, a * self._step[0] :: every[0], b * self._step[1] :: every[1]]
            for a in range(self._shape[0])
            for b in range(self._shape[1])
        ]
        planes = torch.stack([plane[..., :rows, :columns] for plane in cut], 2)
        planes = planes.reshape(len(inputs), self.count, rows * columns)
        whole = rows * columns // WIDE * WIDE
        blocks = planes[..., :whole].unflatten(-1, (whole // WIDE, WIDE)).transpose(1, 2)
        return torch.cat([blocks.flatten(1), planes[..., whole:].flatten(1)], 1)


class _PooledPlanes(torch.autograd.Function):
    """The C code, with its gradient."""

    @staticmethod
    def forward(
        ctx: Any, kernel: Tensor, bias: Tensor, prepared: Tensor, planes: Planes, stacked: bool
    ) -> Tensor:
        if not kernel.dtype == bias.dtype == prepared.dtype == torch.float32:
            raise RuntimeError(f"expected float32, but got {kernel.dtype}, {bias.dtype}")
        kernel, bias, prepared = kernel.contiguous(), bias.contiguous(), prepared.contiguous()
        particles, out, patch = kernel.shape
        examples, size = prepared.shape[-2:]
        windows = size // planes.count
        groups, members = (particles, 1) if stacked else (1, particles)
        sizes = _Sizes(
            groups, members, examples, out, patch, windows, planes.count, planes.right, planes.down
        )
        pooled = kernel.new_empty(particles, examples, out, windows)
        winner = torch.empty(
            particles, examples, out, -(-windows // WIDE), LANES, dtype=torch.int32
        )
        copy = kernel.new_empty(planes.count * WIDE)
        arrays = planes.offsets, kernel, bias, prepared, copy, pooled, winner
        _library().sbmc_stem_forward(ctypes.byref(sizes), *(_address(a) for a in arrays))
        ctx.save_for_backward(prepared, winner)
        ctx.planes, ctx.sizes = planes, sizes
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        prepared, winner = ctx.saved_tensors
        planes, sizes = ctx.planes, ctx.sizes
        particles = sizes.groups * sizes.members
        gradient = gradient.contiguous()
        kernel = gradient.new_empty(particles, sizes.out, sizes.patch)
        bias = gradient.new_empty(particles, sizes.out)
        sums = gradient.new_zeros(2, particles, sizes.out, sizes.patch + 1, LANES)
        copy = gradient.new_empty(planes.count * WIDE)
        arrays = planes.offsets, gradient, winner, prepared, copy, sums, kernel, bias
        _library().sbmc_stem_backward(ctypes.byref(sizes), *(_address(a) for a in arrays))
        return kernel, bias, None, None, None


def pooled_planes(
    kernel: Tensor, bias: Tensor, prepared: Tensor, planes: Planes, stacked: bool
) -> Tensor:
    """relu(max over corners(kernel @ patches) + bias), differentiable in kernel and bias.

    Args:
        kernel: `(particles, out, patch)`.
        bias: `(particles, out)`.
        prepared: planes that all particles share, `(examples, planes * windows)`, or with `stacked`
            those of each particle, `(particles, examples, planes * windows)`.
        planes: their layout.
        stacked: which of both.

    Returns:
        Pooled values `(particles, examples, out, windows)`.
    """
    pooled: Tensor = _PooledPlanes.apply(kernel, bias, prepared, planes, stacked)
    return pooled


def available() -> bool:
    """Whether there is C code to use; looked for on the first call."""
    if wanted() == OFF:
        logger.debug("native stem: not used (SBMC_NATIVE=0)")
        return False
    return _found.library is not None


def usable(inputs: Tensor, layer: nn.Conv2d) -> bool:
    """Whether the C code can take this layer on these inputs."""
    if inputs.device.type != "cpu" or not inputs.dtype == layer.weight.dtype == torch.float32:
        logger.debug("native stem: not used for %s on %s", inputs.dtype, inputs.device)
        return False
    # With strides far beyond the kernel's reach most distances are never read.
    planes = Planes(layer)
    if planes.count > WINDOW * WINDOW * planes.patch:
        logger.debug("native stem: not used (stride %s is too large)", layer.stride)
        return False
    return available()


def _library() -> ctypes.CDLL:
    library = _found.library
    assert library is not None  # or nothing would have been prepared for it
    return library


class _Found:
    """The library, looked for once in a process."""

    def __init__(self) -> None:
        self._lock = Lock()

    @property
    def library(self) -> ctypes.CDLL | None:
        with self._lock:
            return self._loaded

    @cached_property
    def _loaded(self) -> ctypes.CDLL | None:
        try:
            library = load(SOURCE, FUNCTIONS)
        except NoLibrary as error:
            logger.debug("native stem: not used (%s)", error)
            return None
        for name, arrays in (("sbmc_stem_forward", 7), ("sbmc_stem_backward", 8)):
            function = getattr(library, name)
            function.argtypes = [ctypes.c_void_p] * (1 + arrays)
            function.restype = None
        logger.debug("native stem: used")
        return library


_found = _Found()


def _address(tensor: Tensor) -> int:
    return tensor.data_ptr()
