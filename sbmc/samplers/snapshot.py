"""Places from which a run can go on with the same bits, and who keeps them.

A loop offers its place now and then; whoever keeps it decides whether to write it down. Loops nest:
moves inside a temperature of SMC offer their own place while the temperature's stands, and both are
written together. A run that starts again asks for what was kept, and goes on there.

A loop does four things with its keeper: it recalls its place when it begins; it makes what it needs
from that instead of from the start, the generators last; it offers its place wherever it could go
on from; and it leaves when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from sbmc.target.target import Evaluation, Target

State = TypeVar("State", bound=tuple)
Run = TypeVar("Run")


class Snapshot(NamedTuple):
    """One loop's place: whatever decides how it goes on."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]  # plain, as JSON has them


class Keeper:
    """Keeps nothing: what a run that cannot be resumed is given, and the base of those that do.

    The places that are kept form a stack. Offering a place that is on it replaces it and takes off
    whatever stands above, since that belonged to its past.
    """

    def has(self, part: str) -> bool:
        """Whether a place of this loop was found, and has not been recalled."""
        return False

    def recall(self, part: str) -> Snapshot | None:
        """The place that this loop has to go on from; once, and None after that.

        It stays on the stack until the loop offers another one or leaves: loops inside this one go
        on from where they were, and offer their places on top of it.
        """
        return None

    def offer(self, part: str, make: Callable[[], Snapshot]) -> None:
        """Say that the run could go on from here.

        Args:
            part: the loop's name.
            make: makes the snapshot. It is called now, or in an `offer` of a loop inside this one,
                and at no other time: what such loops change, the generators above all, it has to
                hold as it is now. What it makes is good until the part is offered again or left.
        """

    def leave(self, part: str) -> None:
        """Say that this loop has ended."""


NOTHING = Keeper()


class Flat:
    """Stands in for a target where only the kind of a state is wanted, and costs nothing.

    A loop that goes on has to know what states its algorithm has, and `init` tells; but values and
    gradients come from the snapshot.
    """

    def __init__(self, target: Target) -> None:
        self._target = target

    def __call__(self, positions: Tensor) -> Evaluation:
        """A log likelihood of zero."""
        return Evaluation(self.log_likelihood(positions), torch.zeros_like(positions))

    def log_likelihood(self, positions: Tensor) -> Tensor:
        """Zero for each particle."""
        return positions.new_zeros(len(positions), dtype=torch.float64)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)


def generator_states(generators: Sequence[torch.Generator]) -> Tensor:
    """The states of all generators, `(generators, bytes)`."""
    return torch.stack([each.get_state() for each in generators])


def set_generators(generators: Sequence[torch.Generator], states: Tensor) -> None:
    """Put generators back to where they were."""
    for each, state in zip(generators, states.cpu(), strict=True):
        # A copy: torch 2.13 crashes on a state that begins in the middle of its storage.
        each.set_state(state.clone())


def fields_of(prefix: str, state: Any) -> dict[str, Tensor]:
    """The tensors of a NamedTuple, and of those within it, under their names."""
    found: dict[str, Tensor] = {}
    for name, value in zip(state._fields, state, strict=True):
        inside = isinstance(value, tuple)
        key = f"{prefix}.{name}"
        found |= fields_of(key, value) if inside else {key: value}
    return found


def with_fields(prefix: str, state: State, tensors: Mapping[str, Tensor]) -> State:
    """A NamedTuple like `state`, with copies of the tensors that `fields_of` gave."""
    values: list[Any] = []
    for name, value in zip(state._fields, state, strict=True):  # type: ignore[attr-defined]
        key = f"{prefix}.{name}"
        if isinstance(value, tuple):
            values.append(with_fields(key, value, tensors))
        else:
            # A loop writes into its state; the snapshot has to stay as it is.
            values.append(tensors[key].to(value.device, copy=True))
    return type(state)(*values)


def runs_of(runs: Sequence[Any]) -> Snapshot:
    """What runs say of their islands: all fields of the dataclasses that they are."""
    tensors: dict[str, Tensor] = {}
    values: list[dict[str, Any]] = []
    for i, run in enumerate(runs):
        plain: dict[str, Any] = {}
        for name in (each.name for each in fields(run)):
            value = getattr(run, name)
            if name == "draws":
                if value:
                    tensors[f"run.{i}.draws"] = torch.stack(value)
            elif isinstance(value, Tensor):
                tensors[f"run.{i}.{name}"] = value
            else:
                plain[name] = list(value) if isinstance(value, list) else value
        values.append(plain)
    return Snapshot(tensors, {"runs": values})


def with_runs(kind: type[Run], place: Snapshot, device: torch.device) -> list[Run]:
    """The runs that `runs_of` was given, with their draws on `device`."""
    found = []
    for i, values in enumerate(place.values["runs"]):
        # Copies, since a run adds to its lists, and the snapshot has to stay as it is.
        plain = {k: list(v) if isinstance(v, list) else v for k, v in values.items()}
        prefix = f"run.{i}."
        parts: dict[str, Any] = {
            name.removeprefix(prefix): tensor
            for name, tensor in place.tensors.items()
            if name.startswith(prefix)
        }
        if "draws" in parts:
            # Each with memory of its own: a part of a tensor is pickled with all of it.
            parts["draws"] = [each.clone() for each in parts["draws"].to(device)]
        found.append(kind(**plain, **parts))
    return found


def place_of(
    state: Any, runs: Sequence[Any], generators: Tensor | Sequence[torch.Generator]
) -> Snapshot:
    """The place of a loop that has a state, runs and noise.

    Args:
        state: a NamedTuple of tensors.
        runs: one of each island.
        generators: all generators of the batch, or their states at a time that has passed.
    """
    tensors, values = runs_of(runs)
    states = generators if isinstance(generators, Tensor) else generator_states(generators)
    return Snapshot({**fields_of("state", state), **tensors, "generators": states}, values)
