"""A recorded model cut in two: what no sampled parameter touches, and the rest.

Below the cut is everything that is the same for all particles. What crosses the cut may be several
values (a residual, a mask, what attention reads), each of which has the examples as its first axis,
so that it can be computed once for all data and read again in any batches.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor, nn

from sbmc.model.layers import ONCE
from sbmc.model.parameters import ParameterSpace
from sbmc.model.recording import (
    Constant,
    Input,
    Parameter,
    Recording,
    Reference,
    Result,
    pruned,
    substituted,
)
from sbmc.model.replay import Replay

# Operations that are worth not doing again. Without one of them below the cut, nothing is gained.
WORK = {
    *("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "conv1d", "conv2d", "convolution"),
    *("scaled_dot_product_attention", "mkldnn_rnn_layer"),
}


class Cut(NamedTuple):
    """Where a recording is cut.

    Attributes:
        recording: of the whole model.
        above: positions of the operations that are left to do for every particle.
        crossing: what they read from below.
    """

    recording: Recording
    above: frozenset[int]
    crossing: tuple[Reference, ...]


def find_cut(recording: Recording) -> Cut | None:
    """The cut below every sampled parameter.

    Args:
        recording: of the model.

    Returns:
        The cut, or None if there is no work below it.
    """
    above = sampled_operations(recording)
    fixed: set[int] = set()  # operations that do not even depend on the inputs
    for position, operation in enumerate(recording.operations):
        read = list(operation.references())
        results = {each.position for each in read if isinstance(each, Result)}
        if position in above:
            continue
        if results <= fixed and not any(isinstance(each, Input) for each in read):
            fixed.add(position)
    crossing = _crossing(recording, above)
    # What does not come example by example is computed above the cut, from what does.
    while extra := {
        each.position
        for each in crossing
        if isinstance(each, Result) and (each.position in fixed or not _by_example(recording, each))
    }:
        above |= extra
        crossing = _crossing(recording, above)
    below = [op for position, op in enumerate(recording.operations) if position not in above]
    if not crossing or not any(op.name.split(".")[1] in WORK for op in below):
        return None
    return Cut(recording, frozenset(above), tuple(crossing))


def sampled_operations(recording: Recording) -> set[int]:
    """Positions of the operations whose results depend on a sampled parameter."""
    found: set[int] = set()
    for position, operation in enumerate(recording.operations):
        read = list(operation.references())
        if any(
            isinstance(each, Parameter) or (isinstance(each, Result) and each.position in found)
            for each in read
        ):
            found.add(position)
    return found


def _crossing(recording: Recording, above: set[int]) -> list[Reference]:
    """Inputs, and results from below, that operations above the cut read."""
    found: dict[Reference, None] = {}
    for position in sorted(above):
        for each in recording.operations[position].references():
            outside = isinstance(each, Result) and each.position not in above
            if outside or isinstance(each, Input):
                found[each] = None
    return list(found)


def _by_example(recording: Recording, value: Result) -> bool:
    shape = recording.operations[value.position].shape
    return value.item is None and shape is not None and len(shape) > 0 and shape[0] == ONCE


class TopPart(nn.Module):
    """What is above a cut, as a module of what crosses it.

    Args:
        cut: the cut.
        parameters: the sampled parameters by name, with the values to begin with.
    """

    def __init__(self, cut: Cut, parameters: dict[str, Tensor]) -> None:
        super().__init__()
        self.recording = _above(cut)
        self._names = {name: f"parameter_{i}" for i, name in enumerate(parameters)}
        for name, value in parameters.items():
            self.register_parameter(self._names[name], nn.Parameter(value.detach().clone()))
        self._replay: Replay | None = None

    @property
    def space(self) -> ParameterSpace:
        """The sampled parameters, by their names here."""
        shapes = self.recording.space.shapes
        return ParameterSpace(tuple(self._names.values()), shapes)

    def forward(self, *features: Tensor) -> Tensor:
        """The model's output for what crosses the cut."""
        if self._replay is None:
            self._replay = Replay(self.recording)
        weights = {name: getattr(self, own) for name, own in self._names.items()}
        return self._replay(weights, features)[0]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_replay": None}  # made anew: torch's operators are not pickled


def bottom_part(cut: Cut) -> Replay:
    """What is below the cut, as a function of the model's inputs that gives what crosses it."""
    return Replay(cut.recording, cut.crossing)


def _above(cut: Cut) -> Recording:
    """What is above the cut, with what crosses it as inputs, and the constants that it reads."""
    inputs: dict[Reference, Reference] = {
        value: Input(position) for position, value in enumerate(cut.crossing)
    }
    top = pruned(substituted(cut.recording, inputs))
    read = {each for op in top.operations for each in op.references()}
    kept = sorted(each.position for each in read if isinstance(each, Constant))
    places: dict[Reference, Reference] = {
        Constant(old): Constant(new) for new, old in enumerate(kept)
    }
    return replace(
        substituted(top, places),
        constants=tuple(top.constants[position] for position in kept),
        names=tuple(top.names[position] for position in kept),
    )
