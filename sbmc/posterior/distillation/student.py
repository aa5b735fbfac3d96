"""The network that learns, where none is given: its layers follow from the shape of an input.

A table gets two hidden layers. A picture is halved by strided convolutions until no side is longer
than 28 pixels, and then treated as a table. Nothing is pooled, and no layer normalises, so
that one pass costs little more than one matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

HIDDEN = (96, 48)
LONGEST_SIDE = 28
FIRST_CHANNELS, KERNEL = 8, 5


class Standardise(nn.Module):
    """(x − shift) / scale, for each column of a table.

    Args:
        shift: `(columns,)`.
        scale: `(columns,)`, positive.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, shift: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("shift", shift)
        self.register_buffer("scale", scale)

    def forward(self, inputs: Tensor) -> Tensor:
        """Columns of mean 0 and standard deviation 1."""
        return (inputs - self.shift) / self.scale


@dataclass(frozen=True)
class Architecture:
    """What a student is built from, as plain values that a file can hold.

    Attributes:
        input_shape: of one row.
        outputs: how many columns.
        hidden: sizes of the hidden layers.
    """

    input_shape: tuple[int, ...]
    outputs: int
    hidden: tuple[int, ...] = HIDDEN

    @property
    def is_table(self) -> bool:
        """Whether a row is a list of numbers, whose columns are standardised."""
        return len(self.input_shape) == 1

    @property
    def is_picture(self) -> bool:
        """Whether a row has the axes channels, height and width."""
        return len(self.input_shape) == 3

    @property
    def channels(self) -> tuple[int, ...]:
        """Of each strided convolution; they double from one to the next."""
        if not self.is_picture:
            return ()
        side = max(self.input_shape[1:])
        found: list[int] = []
        while side > LONGEST_SIDE:
            found.append(FIRST_CHANNELS * 2 ** len(found))
            side = -(-side // 2)
        return tuple(found)

    def __str__(self) -> str:
        parts = [f"{width} channels" for width in self.channels]
        parts += [f"{width} units" for width in self.hidden]
        return f"{', '.join(parts)}, {self.outputs} outputs"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Architecture:
        """The architecture that `as_dict` described."""
        shape, hidden = (tuple(map(int, content[name])) for name in ("input_shape", "hidden"))
        return cls(shape, int(content["outputs"]), hidden)


def build_student(
    architecture: Architecture, dtype: torch.dtype, seed: int = 0, inputs: Tensor | None = None
) -> nn.Sequential:
    """The network of an architecture, with random weights.

    Args:
        architecture: what to build.
        dtype: of its weights.
        seed: of the weights; torch's own generator stays as it is.
        inputs: rows of a table, by whose columns it is standardised; None where weights are read
            from a file afterwards.

    Returns:
        The network.

    Examples:
        >>> network = build_student(Architecture((3, 32, 32), 9), torch.float32)
        >>> network(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 9])
    """
    shape = architecture.input_shape
    layers: list[nn.Module] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        before = shape[0] if architecture.is_picture else 1
        sides = list(shape[1:])
        for channels in architecture.channels:
            layers += [nn.Conv2d(before, channels, KERNEL, 2, KERNEL // 2), nn.ReLU()]
            before, sides = channels, [-(-side // 2) for side in sides]
        features = before * math.prod(sides) if architecture.is_picture else math.prod(shape)
        layers.append(nn.Flatten())
        for width in architecture.hidden:
            layers += [nn.Linear(features, width), nn.ReLU()]
            features = width
        layers.append(nn.Linear(features, architecture.outputs))
    if architecture.is_table:
        layers[0] = _standardise(inputs, shape[0], dtype)  # rows of a table are flat
    return nn.Sequential(*layers).to(dtype)


def _standardise(inputs: Tensor | None, columns: int, dtype: torch.dtype) -> Standardise:
    if inputs is None:
        return Standardise(torch.zeros(columns, dtype=dtype), torch.ones(columns, dtype=dtype))
    scale = inputs.std(0, unbiased=False)
    return Standardise(inputs.mean(0).to(dtype), torch.where(scale > 0, scale, 1.0).to(dtype))


def input_size(inputs: Tensor) -> float:
    """The root mean square of inputs; 1 if all are zero."""
    return float(inputs.double().square().mean().sqrt()) or 1.0


def take_size(network: nn.Module, size: float) -> None:
    """Make a network that was trained on inputs / size take inputs as they are.

    The first weights are divided by the size. A layer that divides would read and write every
    picture once more at each prediction.
    """
    if size == 1:
        return
    first = next(layer for layer in network.modules() if isinstance(layer, nn.Conv2d | nn.Linear))
    with torch.no_grad():
        first.weight.div_(size)
