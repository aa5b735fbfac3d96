"""Operations carried out for all particles in one pass, no `vmap` of the whole model.

The module is recorded once (`sbmc.model.recording`); each operation is then carried out by a rule
that knows where the particle axis is (`sbmc.model.rules`). A single particle goes through without
such an axis, by the operations that the module itself would call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from torch import Tensor, nn

from sbmc.model import layers, stem
from sbmc.model.data import Inputs, leaves, tree_map
from sbmc.model.kernels.lowrank import Adjusted
from sbmc.model.parameters import ParameterSpace
from sbmc.model.particle_axis import Call, Value
from sbmc.model.recorder import record
from sbmc.model.recording import (
    Constant,
    Input,
    Operation,
    Parameter,
    Recording,
    Reference,
    Result,
    Size,
    Unsupported,
    pruned,
    substituted,
)
from sbmc.model.replay import Replay
from sbmc.model.rules import FOLDED, run


class FusedForward:
    """Evaluate a model for many parameter vectors by operations that know the particle axis.

    Args:
        model: the network; a copy in evaluation mode is recorded, the module itself is not touched.
        space: the parameters that vary between particles. The others, and the buffers, are the
            model's.
        inputs: a few examples.

    Raises:
        Unsupported: the model has a part that cannot be recorded.

    Examples:
        >>> import torch
        >>> from sbmc.model.parameters import select_parameters
        >>> net = nn.Linear(3, 2)
        >>> forward = FusedForward(net, select_parameters(net), torch.zeros(2, 3))
        >>> forward(torch.zeros(10, 8), torch.ones(5, 3)).shape
        torch.Size([10, 5, 2])
    """

    path: str = "fused"

    def __init__(self, model: nn.Module, space: ParameterSpace, inputs: Inputs) -> None:
        self._sampled = space
        self.recording = record(model, space, inputs)
        _refuse_mixing(self.recording)
        folded = join_selections(fold_batch_norms(self.recording))
        self._stem = stem.find(folded) if isinstance(inputs, Tensor) else None
        self._output = folded.output
        self._constants = [Value(tensor, None) for tensor in folded.constants]
        self._steps = _steps(folded)
        self._replay = Replay(folded, fast=True)
        if self._stem is not None:
            for position in self._stem.skipped:
                self._steps[position] = _Step(None, ())
        self._single = isinstance(inputs, Tensor)

    @cached_property
    def _chain(self) -> layers.Chain:
        return layers.find_chain(self.recording, self._sampled)

    @property
    def space(self) -> ParameterSpace:
        """The sampled parameters, by their names in `layers`."""
        return self._chain.space

    def layers(self) -> list[tuple[str, nn.Module]] | None:
        """Modules by name, if the model is one layer after another and nothing else."""
        return self._chain.layers if self._single else None

    @property
    def one_by_one(self) -> bool:
        """Whether a particle alone is evaluated as the module would be, without another axis."""
        return self._chain.layers is None

    @property
    def chain_reason(self) -> str:
        """Why the model is not one layer after another, in words; empty if it is."""
        return self._chain.reason

    def adjusted(self) -> Adjusted | None:
        """The layers, if the model is `base(x) + up(down(x))` of linear layers and no more."""
        return layers.find_adjusted(self.recording) if self._single else None

    def prepare(self, inputs: Inputs) -> Inputs:
        """What the first layer needs of the inputs, made once and not at every call."""
        if self._stem is None or not isinstance(inputs, Tensor):
            return inputs
        return self._stem.prepare(inputs)

    def prepared_bytes(self, inputs: Inputs) -> int:
        """Memory that `prepare` would take beyond the inputs."""
        if self._stem is None or not isinstance(inputs, Tensor):
            return 0
        return self._stem.prepared_bytes(inputs)

    def __call__(self, theta: Tensor, inputs: Inputs, *, stacked: bool = False) -> Tensor:
        """Outputs `(particles, examples, ...)` for `theta` and prepared inputs."""
        if isinstance(inputs, Tensor) is not self._single:
            raise Unsupported("other inputs than it was recorded with")
        if len(theta) == 1 and self.one_by_one:
            alone = tree_map(lambda t: t[0], inputs) if stacked else inputs
            (output,) = self._replay(self._sampled.split(theta[0]), leaves(alone))
            return output.unsqueeze(0)
        return self._run(theta, [Value(t, 0 if stacked else None) for t in leaves(inputs)])

    def _run(self, theta: Tensor, given: list[Value]) -> Tensor:
        weights = {name: Value(part, 0) for name, part in self._sampled.split(theta).items()}
        values = _Values(weights, self._constants, given, [None] * len(self._steps))
        particles = len(theta)
        for position, (operation, releases) in enumerate(self._steps):
            if operation is None:
                continue
            if self._stem is not None and position == self._stem.output:
                values.results[position] = self._stem(
                    values.of(self._stem.weight), values.of(self._stem.bias), given[0]
                )
            else:
                shape = operation.shape
                call = Call(
                    operation.name,
                    values.of(operation.arguments),
                    {name: values.of(value) for name, value in operation.keywords},
                    particles,
                    None if shape is None else values.of(shape),
                )
                values.results[position] = run(call)
            for done in releases:
                values.results[done] = None
        return _as_particle_outputs(values.of(self._output), particles)


class _Values(NamedTuple):
    """What the operations of one call refer to.

    It is no closure: one that calls itself is part of a reference cycle, and would keep the outputs
    of every call alive until the garbage collector comes.
    """

    weights: dict[str, Value]
    constants: Sequence[Any]
    inputs: list[Value]
    results: list[Any]

    def of(self, reference: Any) -> Any:
        """The value of a reference, or of a list of them; anything else stands for itself."""
        kind = type(reference)
        if kind is Result:
            result = self.results[reference.position]
            return result if reference.item is None else result[reference.item]
        if kind is Parameter:
            return self.weights[reference.name]
        if kind is Constant:
            return self.constants[reference.position]
        if kind is Input:
            return self.inputs[reference.position]
        if kind is Size:
            return reference.of(self.inputs[0].shape[0])
        if kind is list or kind is tuple:
            return kind([self.of(each) for each in reference])
        return reference


class _Step(NamedTuple):
    """An operation, and the results that nobody reads after it; None where nothing is done."""

    operation: Operation | None
    releases: tuple[int, ...]


def _steps(recording: Recording) -> list[_Step]:
    """Operations with what can be dropped after each: activations must not pile up."""
    last: dict[int, int] = {}
    for position, operation in enumerate(recording.operations):
        for reference in operation.references():
            if isinstance(reference, Result):
                last[reference.position] = position
    if isinstance(recording.output, Result):
        last.pop(recording.output.position, None)
    releases: dict[int, list[int]] = {}
    for used, position in last.items():
        releases.setdefault(position, []).append(used)
    return [
        _Step(operation, tuple(releases.get(position, ())))
        for position, operation in enumerate(recording.operations)
    ]


def _refuse_mixing(recording: Recording) -> None:
    for operation in recording.operations:
        if operation.kind == "aten.batch_norm" and operation.arguments[5]:
            raise Unsupported("BatchNorm without running statistics")
        if operation.kind == "aten.as_strided":
            raise Unsupported("a view by strides")


def _as_particle_outputs(value: Any, particles: int) -> Tensor:
    if not isinstance(value, Value):
        raise Unsupported("an output that is not one tensor")
    if value.axis is None:
        return value.tensor.expand(particles, *value.tensor.shape)
    return value.at(0)


def fold_batch_norms(recording: Recording) -> Recording:
    """The same, with every BatchNorm that follows a sampled layer as part of that layer.

    Args:
        recording: of a model in evaluation mode.

    Returns:
        A recording in which the operation of the BatchNorm is `folded`, with the arguments of both.
    """
    operations = list(recording.operations)
    for position, layer in foldable(recording).items():
        normal = operations[position]
        _, gain, shift, mean, variance, _, _, eps, _ = normal.arguments
        arguments = (*layer.arguments, gain, shift, mean, variance, eps)
        operations[position] = Operation(f"{FOLDED}.default", arguments, (), normal.shape)
    return pruned(replace(recording, operations=tuple(operations)))


def foldable(recording: Recording) -> dict[int, Operation]:
    """Positions of the BatchNorms that can be part of a layer, and those layers."""
    readers = recording.readers()
    found = {
        position: _layer_before(recording, readers, normal.arguments[0])
        for position, normal in enumerate(recording.operations)
        if normal.kind == "aten.batch_norm" and normal.arguments[3] is not None
    }
    return {position: layer for position, layer in found.items() if layer is not None}


def _layer_before(
    recording: Recording, readers: dict[Reference, list[int]], x: Reference
) -> Operation | None:
    """The layer that gives `x` to nobody else, if its weights are sampled and it can be folded."""
    if not isinstance(x, Result) or len(readers[x]) != 1:
        return None
    layer = recording.operations[x.position]
    ranks = {"aten.linear.default": 2, "aten.conv2d.default": 4}
    shape = layer.shape
    if shape is None or ranks.get(layer.name) != len(shape):
        return None
    return layer if isinstance(layer.arguments[1], Parameter) else None


def join_selections(recording: Recording) -> Recording:
    """The same, with values of which every row is selected taken apart at once.

    Queries, keys and values are often selected from one tensor. On the way back each selection
    would fill a tensor of the whole size with zeros.
    """
    operations = list(recording.operations)
    values: dict[Reference, Reference] = {}
    for value, positions in recording.readers().items():
        group = _selections(recording, value, positions)
        if group:
            first = operations[positions[0]]
            axis = first.arguments[1]
            operations[positions[0]] = Operation("aten.unbind.int", (value, axis), (), None)
            values |= {Result(at): Result(positions[0], row) for row, at in group.items()}
    return pruned(substituted(replace(recording, operations=tuple(operations)), values))


def _selections(
    recording: Recording, value: Reference, positions: list[int]
) -> dict[int, int] | None:
    """Rows and the operations that select them, if all of a value's rows are, and nothing else."""
    if not isinstance(value, Result) or value.item is not None or -1 in positions:
        return None
    shape = recording.operations[value.position].shape
    readers = [recording.operations[position] for position in positions]
    if shape is None or any(reader.name != "aten.select.int" for reader in readers):
        return None
    axes = {reader.arguments[1] % len(shape) for reader in readers}
    rows = {reader.arguments[2]: at for reader, at in zip(readers, positions, strict=True)}
    length = shape[axes.pop()] if len(axes) == 1 else None
    return rows if len(rows) == len(positions) and set(rows) == set(_range(length)) else None


def _range(length: int | Size | None) -> range:
    return range(length) if isinstance(length, int) else range(0)
