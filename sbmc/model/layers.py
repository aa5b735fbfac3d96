"""The layers of a recorded model: which modules, one after another, would do the same.

Kernels know networks as sequences of modules. However the user's code is written (functions,
methods, a view here, a mean over an image there), a recording that is a sequence of such steps is
given back as the modules that it amounts to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from sbmc.model.kernels.lowrank import Adjusted
from sbmc.model.kernels.native.plan import NoiseColumns
from sbmc.model.noise import NOISE
from sbmc.model.parameters import ParameterSpace
from sbmc.model.recording import (
    Constant,
    Input,
    Operation,
    Parameter,
    Recording,
    Reference,
    Result,
    Size,
)

ONCE = Size(1, 0)  # the number of examples, as a size
RESHAPES = ("view", "_unsafe_view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze")
IMAGE_AXES = ([2, 3], [-2, -1], [-1, -2], [3, 2])


class Chain(NamedTuple):
    """A model as layers.

    Attributes:
        layers: modules by name, in their order; None if the model is something else.
        space: the sampled parameters, by their names in the layers.
        reason: why there are no layers, in words.
    """

    layers: list[tuple[str, nn.Module]] | None
    space: ParameterSpace
    reason: str


class _NoChain(Exception):
    """The model is not a sequence of layers, and why."""


def find_chain(recording: Recording, space: ParameterSpace) -> Chain:
    """The modules that a recorded model amounts to, if it is one after another.

    Args:
        recording: of the model.
        space: the sampled parameters.

    Returns:
        The layers and the space with the names that parameters have in them, or the reason why
        there are none.
    """
    try:
        made = _walk(recording)
    except _NoChain as error:
        return Chain(None, space, str(error))
    renamed = {old: new for _, _, names in made for old, new in names.items()}
    if sum(len(names) for _, _, names in made) != len(renamed):
        return Chain(None, space, "a parameter that two layers share")
    names = tuple(renamed.get(name, name) for name in space.names)
    return Chain(
        [(name, module) for name, module, _ in made], ParameterSpace(names, space.shapes), ""
    )


class _Made(NamedTuple):
    name: str
    module: nn.Module
    names: dict[str, str]  # of the sampled parameters: in the model, and in the layers


def _walk(recording: Recording) -> list[_Made]:
    readers = recording.readers()
    value: Reference = Input(0)
    shape: tuple[int | Size, ...] | None = None
    made: list[_Made] = []
    bent = False  # whether the values' axes are neither those of an image nor one alone
    while value != recording.output:
        if len(readers[value]) != 1:
            raise _NoChain(f"{_description(recording, value)} is read more than once")
        (position,) = readers[value]
        operation = recording.operations[position]
        name = operation.name.split(".")[1]
        noise = _appended_noise(recording, operation, value)
        if noise is not None and not bent:
            made.append(noise)
            shape, value = operation.shape, Result(position)
            continue
        if operation.arguments[0] != value or operation.shape is None:
            raise _NoChain(f"{name} ({position})")
        reshapes = name in RESHAPES
        if bent and not reshapes:
            raise _NoChain(f"{name} ({position}) on other axes than those of images")
        if reshapes:
            bent = _add_reshape(made, operation, shape)
        else:
            made += _layers_of(recording, operation, position)
        shape, value = operation.shape, Result(position)
    if bent or shape is None:
        raise _NoChain("an output of more than one axis")
    return made


def _appended_noise(recording: Recording, operation: Operation, value: Reference) -> _Made | None:
    """The noise of a likelihood, if the operation appends it to the values of the last layer."""
    last = Result(len(recording.operations) - 1)
    if operation.name != "aten.cat.default" or recording.output != last:
        return None
    parts = operation.arguments[0]
    if len(parts) != 2 or parts[0] != value or not isinstance(parts[1], Result):
        return None
    expanded = recording.operations[parts[1].position]
    parameter = expanded.arguments[0]
    if expanded.name != "aten.expand.default" or parameter != Parameter(NOISE):
        return None
    columns = (expanded.shape or (0,))[-1]
    assert isinstance(columns, int)
    return _Made("", NoiseColumns(NOISE, columns), {NOISE: NOISE})


def _description(recording: Recording, value: Reference) -> str:
    if isinstance(value, Result):
        return f"what {recording.operations[value.position].name.split('.')[1]} gives"
    return "the input"


def _add_reshape(
    made: list[_Made], operation: Operation, before: tuple[int | Size, ...] | None
) -> bool:
    """Note a reshape; return whether the values now have axes that no layer knows."""
    shape = operation.shape
    assert shape is not None
    if shape == before:
        return False
    if shape[0] != ONCE or not all(isinstance(size, int) for size in shape[1:]):
        raise _NoChain("a reshape that mixes examples")
    if made and isinstance(made[-1].module, (nn.Flatten, nn.Unflatten)):
        made.pop()  # of reshapes in a row, the last one counts
    if len(shape) == 2:
        made.append(_Made("", nn.Flatten(), {}))
    elif len(shape) == 4 and not made:
        made.append(_Made("", nn.Unflatten(1, shape[1:]), {}))  # type: ignore[arg-type]
    else:
        return True
    return False


def _layers_of(recording: Recording, operation: Operation, position: int) -> list[_Made]:
    name = operation.name.split(".")[1]
    arguments = operation.arguments
    if name in ("linear", "conv2d"):
        if name == "linear" and len(operation.shape or ()) != 2:
            raise _NoChain(f"linear ({position}) on more than one axis")
        return [_weighted(recording, operation, position)]
    if name == "mean" and arguments[1] in IMAGE_AXES:
        pool = _Made(f"mean {position}", nn.AdaptiveAvgPool2d(1), {})
        return [pool] if arguments[2] else [pool, _Made("", nn.Flatten(), {})]
    if name == "elu" and arguments[2:] != (1, 1):
        raise _NoChain(f"elu ({position}) with a scale")
    build = MODULES.get(name)
    if build is None:
        raise _NoChain(f"{name} ({position})")
    keywords = dict(operation.keywords)
    return [_Made(f"{name} {position}", build(*arguments[1:], **keywords), {})]


def _gelu(approximate: str = "none") -> nn.Module:
    return nn.GELU(approximate)


MODULES: dict[str, Callable[..., nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "gelu": _gelu,
    "leaky_relu": nn.LeakyReLU,
    "elu": lambda alpha=1.0, scale=1, input_scale=1: nn.ELU(alpha),
    "softplus": nn.Softplus,
    "max_pool2d": lambda kernel, stride, padding, dilation, ceil: nn.MaxPool2d(
        _pair(kernel), _pair(stride or kernel), _pair(padding), _pair(dilation), ceil_mode=ceil
    ),
    "avg_pool2d": lambda kernel, stride, padding, ceil, include, divisor: nn.AvgPool2d(
        _pair(kernel), _pair(stride or kernel), _pair(padding), ceil, include, divisor
    ),
    "adaptive_avg_pool2d": lambda size: nn.AdaptiveAvgPool2d(_pair(size)),
}


def _pair(value: list[int]) -> tuple[int, int]:
    return (value[0], value[0]) if len(value) == 1 else (value[0], value[1])


def _weighted(recording: Recording, operation: Operation, position: int) -> _Made:
    """A layer with its parameters' names: its own, where they are those that a module has."""
    _, weight, bias, *_ = operation.arguments
    if any(isinstance(reference, (Result, Input)) for reference in (weight, bias)):
        raise _NoChain(f"{operation.name.split('.')[1]} ({position}) with computed weights")
    names = {
        own: reference.name
        for own, reference in (("weight", weight), ("bias", bias))
        if isinstance(reference, Parameter)
    }
    prefixes = {name.removesuffix(own) for own, name in names.items()}
    usual = all(name.rpartition(".")[2] == own for own, name in names.items())
    if not usual or len(prefixes) > 1:
        prefixes = {f"{operation.name.split('.')[1]} {position}."}
    prefix = prefixes.pop() if prefixes else f"frozen {position}."
    renamed = {name: f"{prefix}{own}" for own, name in names.items()}
    return _Made(prefix.removesuffix("."), layer_of(recording, operation), renamed)


def layer_of(recording: Recording, operation: Operation) -> nn.Module:
    """The module that a recorded linear layer or convolution amounts to.

    Args:
        recording: where its frozen weights are.
        operation: of `linear` or `conv2d`.

    Returns:
        A module without memory for sampled parameters, whose values every particle has.
    """
    _, weight, bias, *options = operation.arguments
    out, features, *kernel = recording.shape_of(weight)
    with torch.device("meta"):
        if operation.kind == "aten.linear":
            layer: Any = nn.Linear(features, out, bias=bias is not None)
        else:
            stride, padding, dilation, groups = options
            layer = nn.Conv2d(
                features * groups,
                out,
                _pair(kernel),
                _pair(stride),
                padding if isinstance(padding, str) else _pair(padding),
                _pair(dilation),
                groups,
                bias=bias is not None,
            )
    for own, reference in (("weight", weight), ("bias", bias)):
        if isinstance(reference, Constant):
            frozen = recording.constants[reference.position]
            setattr(layer, own, nn.Parameter(frozen.detach(), requires_grad=False))
    return layer


def find_adjusted(recording: Recording) -> Adjusted | None:
    """The layers, if the model is `base(x) + up(down(x))` of linear layers and no more."""
    output = recording.output
    if len(recording.operations) != 4 or not isinstance(output, Result):
        return None
    total = recording.operations[output.position]
    if total.name != "aten.add.Tensor" or dict(total.keywords).get("alpha", 1) != 1:
        return None
    ends = [_linear_at(recording, end) for end in total.arguments]
    direct = [end for end in ends if end is not None and end[0] == Input(0)]
    beyond = [end for end in ends if end is not None and end[0] != Input(0)]
    if len(direct) != 1 or len(beyond) != 1:
        return None
    below = _linear_at(recording, beyond[0][0])
    if below is None or below[0] != Input(0):
        return None
    return Adjusted(base=direct[0][1:], down=below[1:], up=beyond[0][1:])


def _linear_at(recording: Recording, value: Any) -> tuple[Reference, str, nn.Linear] | None:
    """What a linear layer is given, its name and itself, if that is where a value comes from."""
    if not isinstance(value, Result):
        return None
    operation = recording.operations[value.position]
    weights = operation.arguments[1:]
    if operation.kind != "aten.linear" or any(isinstance(each, Result) for each in weights):
        return None
    made = _weighted(recording, operation, value.position)
    assert isinstance(made.module, nn.Linear)
    return operation.arguments[0], made.name, made.module
