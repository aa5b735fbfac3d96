"""Carrying a recording out again, for one set of parameters, as the module itself would.

Everything that operations read stands in one list: inputs, parameters, constants, plain numbers and
results. What an operation is given is then fetched by position, which costs next to nothing beside
the operation. Nothing is shared between calls, so that threads may make them side by side.
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from sbmc.model.particle_axis import Call, Value
from sbmc.model.products import linear
from sbmc.model.recording import (
    Constant,
    Input,
    Operation,
    Parameter,
    Recording,
    Reference,
    Result,
    Size,
    needed,
    operator,
)
from sbmc.model.rules import PLAIN_RULES, RESHAPING

# Where an argument stands; a list of places for a list of tensors.
Place = int | list[int]


FASTER: dict[str, Callable[..., Any]] = {"linear": linear}


class _Step(NamedTuple):
    function: Callable[..., Any]
    reads: list[Place]  # its arguments
    result: int


class Replay:
    """A recording as a function of parameters and inputs.

    Args:
        recording: the operations.
        outputs: the values to return; the recording's output if not given.
        fast: whether some operations may be carried out by faster ones, equal to rounding. A
            recording of the replay would have those in it.

    Examples:
        >>> import torch
        >>> from sbmc.model.parameters import select_parameters
        >>> from sbmc.model.recorder import record
        >>> net = torch.nn.Linear(3, 2)
        >>> replay = Replay(record(net, select_parameters(net), torch.zeros(2, 3)))
        >>> weights = {"weight": torch.ones(2, 3), "bias": torch.zeros(2)}
        >>> replay(weights, [torch.ones(1, 3)])
        [tensor([[3., 3.]])]
    """

    def __init__(
        self,
        recording: Recording,
        outputs: Sequence[Reference] | None = None,
        *,
        fast: bool = False,
    ) -> None:
        self._recording = recording
        self._fast = fast
        self._read = [each for each in recording.readers() if isinstance(each, Result)]
        self._list: list[Any] = []
        self._places: dict[Any, int] = {}
        self._sizes: list[tuple[int, Any]] = []
        wanted = (recording.output,) if outputs is None else outputs
        steps = [step for op in needed(recording, wanted) for step in self._steps(op)]
        self._outputs = [self._place(reference) for reference in wanted]
        releases = _releases(steps, set(self._outputs))
        self._work = [
            (step.function, _fetching(step.reads), step.result, releases.get(index, ()))
            for index, step in enumerate(steps)
        ]

    def __call__(self, parameters: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
        """The outputs, for parameters by name and inputs `(examples, ...)`."""
        values = self._list.copy()
        examples = len(inputs[0])
        for reference, place in self._places.items():
            if type(reference) is Parameter:
                values[place] = parameters[reference.name]
            elif type(reference) is Input:
                values[place] = inputs[reference.position]
        for place, size in self._sizes:
            values[place] = _sized(size, examples)
        for function, fetch, result, releases in self._work:
            values[result] = function(*fetch(values))
            for done in releases:
                values[done] = None
        return [values[place] for place in self._outputs]

    def _add(self, value: Any) -> int:
        self._list.append(value)
        return len(self._list) - 1

    def _place(self, argument: Any) -> int:
        """Where an argument stands in the list."""
        if isinstance(argument, (Input, Parameter, Constant, Result)):
            if argument not in self._places:
                frozen = isinstance(argument, Constant)
                value = self._recording.constants[argument.position] if frozen else None  # type: ignore[union-attr]
                self._places[argument] = self._add(value)
            return self._places[argument]
        place = self._add(argument)
        if _has(argument, Size):
            self._sizes.append((place, argument))
        return place

    def _steps(self, position: int) -> list[_Step]:
        operation = self._recording.operations[position]
        result = self._place(Result(position))
        arguments: list[Any] = [*operation.arguments, *(value for _, value in operation.keywords)]
        kind = operation.kind.removeprefix("aten.")
        function: Callable[..., Any]
        if kind in RESHAPING:
            function, arguments = Tensor.reshape, [operation.arguments[0], operation.shape]
        elif kind in PLAIN_RULES:
            function = _by_rule(operation)
        elif kind in FASTER and self._fast:
            function = FASTER[kind]
        else:
            function = _with_keywords(operation)
        steps = [_Step(function, [self._reading(each) for each in arguments], result)]
        if operation.shape is None:  # several results, which are read one by one
            for reference in self._read:
                if reference.position == position and reference.item is not None:
                    reads: list[Place] = [result, self._add(reference.item)]
                    steps.append(_Step(python.getitem, reads, self._place(reference)))
        return steps

    def _reading(self, argument: Any) -> Place:
        if isinstance(argument, (list, tuple)) and _has(argument, (Input, Parameter, Result)):
            return [self._place(each) for each in argument]
        return self._place(argument)


def _fetching(places: list[Place]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """A function that takes arguments out of the list."""
    if len(places) > 1 and all(isinstance(place, int) for place in places):
        return python.itemgetter(*places)

    def fetch(values: list[Any]) -> tuple[Any, ...]:
        return tuple(
            [
                values[place] if isinstance(place, int) else [values[p] for p in place]
                for place in places
            ]
        )

    return fetch


def _with_keywords(operation: Operation) -> Callable[..., Any]:
    function, count = operator(operation.name), len(operation.arguments)
    names = [name for name, _ in operation.keywords]
    if not names:
        return function
    return lambda *all_of: function(
        *all_of[:count], **dict(zip(names, all_of[count:], strict=True))
    )


def _by_rule(operation: Operation) -> Callable[..., Any]:
    rule = PLAIN_RULES[operation.kind.removeprefix("aten.")]

    def function(*tensors: Any) -> Any:
        arguments = [Value(each, None) if isinstance(each, Tensor) else each for each in tensors]
        return rule(Call(operation.name, tuple(arguments), {}, 1, None)).tensor

    return function


def _has(value: Any, kinds: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_has(each, kinds) for each in value)
    return isinstance(value, kinds)


def _sized(value: Any, examples: int) -> Any:
    if isinstance(value, (list, tuple)):
        return [_sized(each, examples) for each in value]
    return value.of(examples) if isinstance(value, Size) else value


def _releases(steps: list[_Step], wanted: set[int]) -> dict[int, tuple[int, ...]]:
    """What can be dropped after each step: activations must not pile up."""
    results = {step.result for step in steps} - wanted
    last: dict[int, int] = {}
    for index, step in enumerate(steps):
        for place in step.reads:
            for each in [place] if isinstance(place, int) else place:
                last[each] = index
    releases: dict[int, tuple[int, ...]] = {}
    for place, index in last.items():
        if place in results:
            releases[index] = (*releases.get(index, ()), place)
    return releases
