"""A model's tensor operations as data: what is computed of what, for any number of examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from sbmc.model.parameters import ParameterSpace


class Unsupported(Exception):
    """The model has a part that this path does not cover; another path takes over."""


@dataclass(frozen=True)
class Input:
    """One of the tensors that the model is given, by its position among them."""

    position: int


@dataclass(frozen=True)
class Parameter:
    """A sampled parameter."""

    name: str


@dataclass(frozen=True)
class Constant:
    """A frozen parameter, a buffer, or another tensor that no call changes, by its position."""

    position: int


@dataclass(frozen=True)
class Result:
    """What an operation gave, by the operation's position; `item` counts several results."""

    position: int
    item: int | None = None


Reference = Input | Parameter | Constant | Result


@dataclass(frozen=True)
class Size:
    """An integer that follows the number of examples: `slope * examples + offset`."""

    slope: int
    offset: int

    def of(self, examples: int) -> int:
        """The number for so many examples."""
        return self.slope * examples + self.offset


@dataclass(frozen=True)
class Operation:
    """One operation of a recording.

    Attributes:
        name: of torch's operator, `aten.linear.default`.
        arguments: in the order of the operator's schema, with references for tensors.
        keywords: arguments that are given by name.
        shape: of the result, where that is one tensor.
    """

    name: str
    arguments: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...]
    shape: tuple[int | Size, ...] | None

    @property
    def kind(self) -> str:
        """The name without its overload: `aten.linear`."""
        return self.name.rpartition(".")[0]

    def references(self) -> Iterator[Reference]:
        """Every tensor that the operation reads."""
        yield from _references(self.arguments)
        yield from _references([value for _, value in self.keywords])


@dataclass(frozen=True)
class Recording:
    """The operations of a call, in their order.

    Attributes:
        operations: the operations; their positions are what `Result` refers to.
        constants: the tensors that `Constant` refers to.
        output: what the model returns.
        space: the sampled parameters.
        names: of the constants, empty for those that are neither parameters nor buffers.
    """

    operations: tuple[Operation, ...]
    constants: tuple[Tensor, ...]
    output: Reference
    space: ParameterSpace
    names: tuple[str, ...]

    def shape_of(self, reference: Parameter | Constant) -> tuple[int, ...]:
        """The shape of a weight, sampled or frozen."""
        if isinstance(reference, Constant):
            return tuple(self.constants[reference.position].shape)
        return tuple(self.space.shapes[self.space.names.index(reference.name)])

    def readers(self) -> dict[Reference, list[int]]:
        """Which operations read each value; the model's output is read by -1."""
        found: dict[Reference, list[int]] = {}
        for position, operation in enumerate(self.operations):
            for reference in operation.references():
                found.setdefault(reference, []).append(position)
        found.setdefault(self.output, []).append(-1)
        return found


@cache
def operator(name: str) -> Callable[..., Any]:
    """Torch's operator of a name such as `aten.linear.default`."""
    namespace, packet, overload = name.rsplit(".", 2)
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


def _references(value: Any) -> Iterator[Reference]:
    if isinstance(value, (Input, Parameter, Constant, Result)):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _references(each)


def needed(recording: Recording, outputs: Iterable[Reference]) -> list[int]:
    """Positions of the operations that some values come from, in their order."""
    found: set[int] = set()
    waiting = list(outputs)
    while waiting:
        reference = waiting.pop()
        if isinstance(reference, Result) and reference.position not in found:
            found.add(reference.position)
            waiting += recording.operations[reference.position].references()
    return sorted(found)


def pruned(recording: Recording) -> Recording:
    """The same without operations that the output does not need."""
    order = needed(recording, [recording.output])
    places = {position: index for index, position in enumerate(order)}

    def moved(reference: Reference) -> Reference:
        if isinstance(reference, Result):
            return Result(places[reference.position], reference.item)
        return reference

    return replace(
        recording,
        operations=tuple(_mapped(recording.operations[position], moved) for position in order),
        output=moved(recording.output),
    )


def substituted(recording: Recording, values: Mapping[Reference, Reference]) -> Recording:
    """The same with some values in the place of others."""

    def other(reference: Reference) -> Reference:
        return values.get(reference, reference)

    operations = tuple(_mapped(operation, other) for operation in recording.operations)
    return replace(recording, operations=operations, output=other(recording.output))


def _mapped(operation: Operation, function: Callable[[Reference], Reference]) -> Operation:
    def of(value: Any) -> Any:
        if isinstance(value, (Input, Parameter, Constant, Result)):
            return function(value)
        if isinstance(value, (list, tuple)):
            return type(value)(of(each) for each in value)
        return value

    arguments, keywords = of(operation.arguments), of(operation.keywords)
    return replace(operation, arguments=arguments, keywords=keywords)
