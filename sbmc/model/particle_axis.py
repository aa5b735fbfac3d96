"""Values with a particle axis, and operations that need to know nothing but where it is.

A value is a tensor with its particle axis at 0, at 1 (after the examples), or nowhere (shared by
all particles, as inputs and frozen weights are). Functions of single numbers broadcast over it,
operations along axes count one more, and whatever is none of these is done by `torch.func.vmap`,
that one operation alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sbmc.model.fallbacks import without_fallback_warnings
from sbmc.model.recording import Unsupported, operator


class Value(NamedTuple):
    """A tensor and the place of its particle axis: 0, 1 (after the examples), or None (shared)."""

    tensor: Tensor
    axis: int | None

    def at(self, axis: int) -> Tensor:
        """The tensor with its particle axis at `axis` (a view)."""
        return self.tensor if self.axis == axis else self.tensor.transpose(0, 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the user's code sees: without the particle axis."""
        shape = tuple(self.tensor.shape)
        return shape if self.axis is None else shape[: self.axis] + shape[self.axis + 1 :]

    def map(self, function: Callable[[Tensor], Tensor]) -> Value:
        """The same axis, another tensor."""
        return Value(function(self.tensor), self.axis)


class Call(NamedTuple):
    """An operation with its values at hand.

    Attributes:
        name: of torch's operator.
        arguments: in the order of its schema.
        keywords: those given by name.
        particles: how many there are.
        shape: of the result for one particle, where that is one tensor.
    """

    name: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    particles: int
    shape: tuple[int, ...] | None


def values_of(call: Call) -> list[Value]:
    """Every value that an operation reads."""
    found: list[Value] = []
    _map(lambda value: found.append(value), call.arguments)
    _map(lambda value: found.append(value), tuple(call.keywords.values()))
    return found


def _map(function: Callable[[Value], Any], argument: Any) -> Any:
    if isinstance(argument, Value):
        return function(argument)
    if isinstance(argument, (list, tuple)):
        return type(argument)(_map(function, each) for each in argument)
    return argument


def apply(function: Any, call: Call, tensor_of: Callable[[Value], Tensor]) -> Any:
    """Call torch with a tensor in the place of every value."""
    keywords = {name: _map(tensor_of, value) for name, value in call.keywords.items()}
    return function(*_map(tensor_of, call.arguments), **keywords)


def as_values(result: Any, axis: int | None) -> Any:
    """What torch gave, as values with their particle axis there."""
    if isinstance(result, Tensor):
        return Value(result, axis)
    if isinstance(result, (list, tuple)):
        return [as_values(each, axis) for each in result]
    raise Unsupported(f"an operation that gives {type(result).__name__}")


def with_axis(value: Value, particles: int) -> Tensor:
    """A tensor with its particle axis in front; a shared one is expanded."""
    if value.axis is None:
        return value.tensor.expand(particles, *value.tensor.shape)
    return value.at(0)


def merged(value: Value, function: Callable[[Tensor], Tensor]) -> Value:
    """Apply a function of `(examples, ...)` by merging the particle axis into the examples."""
    if value.axis is None:
        return value.map(function)
    lead = value.tensor.shape[:2]
    out = function(value.tensor.flatten(0, 1))
    return Value(out.unflatten(0, lead), value.axis)


def pointwise(call: Call) -> Value:
    """A function of single numbers: values are aligned so that they broadcast."""
    values = values_of(call)
    rank = max(len(value.shape) for value in values)
    same = all(v.axis == 1 and len(v.shape) == rank for v in values if v.axis is not None)
    axis = 1 if same else 0

    def aligned(value: Value) -> Tensor:
        if value.axis is None:
            # Axes are counted from the last, so the particle axis is in the way at 1 alone.
            return value.tensor.unsqueeze(1) if axis and len(value.shape) == rank else value.tensor
        tensor = value.at(axis)
        missing = rank - len(value.shape)
        return tensor[(slice(None), *[None] * missing)] if missing else tensor

    return Value(apply(operator(call.name), call, aligned), axis)


# Operations along axes that they name, all of which move by one behind the particle axis.
ALONG_AXES = {
    *("transpose", "permute", "select", "slice", "unsqueeze", "squeeze", "narrow", "flip"),
    *("mean", "sum", "amax", "amin", "var", "std", "logsumexp", "cumsum", "max", "min", "prod"),
    *("_softmax", "_log_softmax", "cat", "stack", "split", "split_with_sizes", "unbind", "glu"),
}
AXES = ("dim", "dim0", "dim1", "dims")


def names_axes(call: Call) -> bool:
    """Whether the operation says which axes it means; none would mean all, of examples too."""
    schema = operator(call.name)._schema  # type: ignore[attr-defined]
    named = [
        value
        for argument, value in zip(schema.arguments, call.arguments, strict=False)
        if argument.name in AXES
    ]
    return bool(named) and all(value is not None and value != [] for value in named)


def along_axes(call: Call) -> Any:
    """An operation along axes that it names, with the particle axis in front."""
    schema = operator(call.name)._schema  # type: ignore[attr-defined]
    rank = max(len(value.shape) for value in values_of(call))

    def moved(axis: int) -> int:
        return axis if axis < 0 else axis + 1

    arguments = []
    for argument, value in zip(schema.arguments, call.arguments, strict=False):
        if argument.name not in AXES:
            arguments.append(value)
        elif call.name == "aten.permute.default":
            arguments.append([0, *(axis % rank + 1 for axis in value)])
        else:
            arguments.append([moved(a) for a in value] if isinstance(value, list) else moved(value))
    shifted = call._replace(arguments=tuple(arguments))
    result = apply(operator(call.name), shifted, lambda v: with_axis(v, call.particles))
    return as_values(result, 0)


def by_vmap(call: Call) -> Any:
    """Any operation, as `torch.func.vmap` does it."""
    carried = [value for value in values_of(call) if value.axis is not None]

    def one(*tensors: Tensor) -> Any:
        rest = iter(tensors)
        return apply(
            operator(call.name), call, lambda v: v.tensor if v.axis is None else next(rest)
        )

    axes = tuple(value.axis for value in carried)
    each = torch.func.vmap(one, in_dims=axes, randomness="error")
    with without_fallback_warnings():
        return as_values(each(*(value.tensor for value in carried)), 0)


def reshape(call: Call) -> Value:
    """Another shape for each particle."""
    value, shape = call.arguments[0], call.shape
    assert isinstance(value, Value)
    assert shape is not None
    if value.axis is None:
        return value.map(lambda t: t.reshape(shape))
    if value.axis == 1 and len(shape) > 0 and shape[0] == value.shape[0]:
        return value.map(lambda t: t.reshape(shape[0], call.particles, *shape[1:]))
    return Value(value.at(0).reshape(call.particles, *shape), 0)


def expand(call: Call) -> Value:
    """A repetition without copies, for each particle."""
    value, shape = call.arguments[0], call.shape
    assert shape is not None
    missing = len(shape) - len(value.shape)
    tensor = value.at(0)[(slice(None), *[None] * missing)]
    return Value(tensor.expand(call.particles, *shape), 0)
