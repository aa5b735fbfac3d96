"""What the C code of a chain of layers is told: which layers, what they read, where they write."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

# Kinds of layers and functions of one number, in the order of chain.c.
APPLY, MAX, MEAN, BEND = range(4)
RELU, TANH, SIGMOID, SILU, GELU, GELU_TANH, LEAKY, ELU, SOFTPLUS = range(9)
PASSING = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout)


class NoiseColumns(nn.Module):
    """A last layer, known to kernels alone: it appends numbers that are learned to the outputs.

    Args:
        name: of the parameter.
        columns: how many.
    """

    def __init__(self, name: str, columns: int) -> None:
        super().__init__()
        self.name, self.columns = name, columns


class NotAChain(Exception):
    """The model has a part that the C code does not cover, and which."""


@dataclass
class Step:
    """A layer with the shape of what it gives; `margin` is the zeros that the next one wants.

    A ReLU is part of the layer before it; other functions are layers, with up to two numbers.
    """

    kind: int
    module: nn.Module | None
    name: str
    shape: tuple[int, int, int]
    relu: bool = False
    margin: tuple[int, int] = (0, 0)
    function: int = RELU
    numbers: tuple[float, float] = (0.0, 0.0)

    @property
    def stored(self) -> tuple[int, int, int]:
        """The shape with its zeros around."""
        channels, height, width = self.shape
        return channels, height + 2 * self.margin[0], width + 2 * self.margin[1]

    @property
    def offsets(self) -> Tensor:
        """Offsets of the values proper in the stored array, `(channels, height, width)`."""
        grid = torch.arange(math.prod(self.stored), dtype=torch.int32).view(self.stored)
        (down, right), (_, height, width) = self.margin, self.shape
        return grid[:, down : down + height, right : right + width]


def find_steps(layers: Sequence[tuple[str, nn.Module]], inputs: Tensor) -> list[Step]:
    """What is computed, beginning with the inputs as they are given."""
    channels, height, width = _first_shape(layers, inputs)
    steps, flat = [Step(APPLY, None, "", (channels, height, width))], inputs.ndim == 2
    module: Any  # the type checker does not follow `kind`
    for name, module in layers:
        last = steps[-1]
        kind = type(module)
        if kind in PASSING or kind is NoiseColumns:  # which is always the last
            continue
        if kind is nn.ReLU and last.kind != BEND:
            if last.module is None:
                raise NotAChain("a ReLU of the inputs")
            last.relu = True
        elif (bend := find_function(module)) is not None:
            if last.module is None:
                raise NotAChain(f"a {kind.__name__} of the inputs")
            function, numbers = bend
            steps.append(Step(BEND, module, name, last.shape, function=function, numbers=numbers))
        elif kind is nn.Flatten:
            if (module.start_dim, module.end_dim) != (1, -1):
                raise NotAChain("a flattening of some axes")
            flat = True
        elif kind is nn.Unflatten and last.module is None:
            flat = False
        elif kind is nn.Linear and flat:
            steps.append(Step(APPLY, module, name, (module.out_features, 1, 1)))
        elif kind is nn.Conv2d and not flat:
            steps.append(_convolution(module, name, last))
        elif kind in (nn.MaxPool2d, nn.AvgPool2d) and not flat:
            steps.append(_pooling(module, name, last))
        elif kind is nn.AdaptiveAvgPool2d and _pair(module.output_size) == (1, 1) and not flat:
            steps.append(_pooling(nn.AvgPool2d(last.shape[1:]), name, last))
        else:
            raise NotAChain(f"{kind.__name__} ({name})")
    if not flat or steps[-1].kind != APPLY or steps[-1].module is None or steps[-1].relu:
        raise NotAChain("an end that is no linear layer")
    return steps


def _first_shape(layers: Sequence[tuple[str, nn.Module]], inputs: Tensor) -> tuple[int, int, int]:
    """Channels, height and width of the inputs, or of what a first reshape makes of them."""
    first = layers[0][1] if layers else None
    if isinstance(first, nn.Unflatten) and len(first.unflattened_size) == 3:
        return tuple(int(size) for size in first.unflattened_size)  # type: ignore[return-value]
    if inputs.ndim in (2, 4):
        return (*inputs.shape[1:], 1, 1)[:3]
    if isinstance(first, nn.Flatten):
        return math.prod(inputs.shape[1:]), 1, 1
    raise NotAChain(f"inputs of {inputs.ndim} axes")


def find_function(module: Any) -> tuple[int, tuple[float, float]] | None:
    """The function of one number that a module is, and what decides it; None for another."""
    kind = type(module)
    plain = {nn.ReLU: RELU, nn.Tanh: TANH, nn.Sigmoid: SIGMOID, nn.SiLU: SILU}
    if kind in plain:
        return plain[kind], (0.0, 0.0)
    if kind is nn.GELU:
        return (GELU_TANH if module.approximate == "tanh" else GELU), (0.0, 0.0)
    if kind is nn.LeakyReLU:
        return LEAKY, (module.negative_slope, 0.0)
    if kind is nn.ELU:
        return ELU, (module.alpha, 0.0)
    if kind is nn.Softplus and module.beta > 0:
        return SOFTPLUS, (module.beta, module.threshold)
    return None


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)


def _counts(shape: tuple[int, ...], reach: tuple[int, int], every: tuple[int, int]) -> list[int]:
    return [(n - r) // s + 1 for n, r, s in zip(shape, reach, every, strict=True)]


def _convolution(module: nn.Conv2d, name: str, last: Step) -> Step:
    if module.groups != 1 or module.padding_mode != "zeros" or isinstance(module.padding, str):
        raise NotAChain(f"Conv2d ({name}) with groups or another padding")
    last.margin = _pair(module.padding)
    window = [d * (k - 1) + 1 for d, k in zip(module.dilation, module.kernel_size, strict=True)]
    rows, columns = _counts(last.stored[1:], _pair(window), _pair(module.stride))
    return Step(APPLY, module, name, (module.out_channels, rows, columns))


def _pooling(module: Any, name: str, last: Step) -> Step:
    kernel, stride = _pair(module.kernel_size), _pair(module.stride)
    plain = _pair(module.padding) == (0, 0) and not module.ceil_mode
    if type(module) is nn.MaxPool2d:
        plain = plain and _pair(module.dilation) == (1, 1) and not module.return_indices
    elif module.divisor_override is not None:
        plain = False
    if not plain:
        raise NotAChain(f"{type(module).__name__} ({name}) with padding or other options")
    rows, columns = _counts(last.shape[1:], kernel, stride)
    kind = MAX if type(module) is nn.MaxPool2d else MEAN
    return Step(kind, module, name, (last.shape[0], rows, columns))


def find_offsets(before: Step, step: Step) -> tuple[Tensor, Tensor]:
    """Where each position begins to read, and the taps from there."""
    module: Any = step.module
    if isinstance(module, nn.Linear):
        return torch.zeros(1), before.offsets.flatten()
    if step.kind == BEND:
        return before.offsets.flatten(), torch.zeros(1)
    channels, height, width = before.stored
    grid = torch.arange(channels * height * width).view(channels, height, width)
    rows, columns = step.shape[1:]
    (down, right), (tall, wide) = _pair(module.stride), _pair(module.kernel_size)
    begin = grid if step.kind == APPLY else before.offsets.long()
    begin = begin[:, : rows * down : down, : columns * right : right]
    dilation = _pair(getattr(module, "dilation", 1))
    taps = grid[:, : tall * dilation[0] : dilation[0], : wide * dilation[1] : dilation[1]]
    if step.kind == APPLY:
        return begin[0].flatten(), taps.flatten()
    return begin.flatten(), taps[0].flatten()
