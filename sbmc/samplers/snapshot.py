"""Snapshots: all that a loop needs to continue from where it was, with the same bits.

After each step a loop offers a snapshot. The checkpointer decides whether to save it. Loops nest:
the moves inside a temperature of SMC offer snapshots of their own while the temperature's is valid,
and both are saved together. A run that is resumed restores its snapshot and continues from there.

A loop uses its checkpointer in four ways. When it begins, it restores its snapshot. If there is
one, it makes its state from that instead of from the start, the generators last. Wherever it could
continue from, it offers a snapshot. When it ends, it discards its snapshot.
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
    """All that decides how one loop continues."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]  # plain, as JSON has them


class Checkpointer:
    """Saves nothing: for a run that cannot be resumed, and the base class of those that save.

    The snapshots form a stack, with that of an inner loop above that of the loop around it. When a
    loop offers a new snapshot, it replaces the loop's old one, and those above that are removed,
    since they belonged to an earlier step.
    """

    def has(self, part: str) -> bool:
        """Whether there is a snapshot of this loop that has not been restored yet."""
        return False

    def restore(self, part: str) -> Snapshot | None:
        """The snapshot from which this loop has to continue; None when asked a second time.

        It stays on the stack until the loop offers another one or discards it: loops inside this
        one continue from their own snapshots, and offer new ones on top of it.
        """
        return None

    def offer_snapshot(self, part: str, make: Callable[[], Snapshot]) -> None:
        """Offer a snapshot from which the run could continue.

        Args:
            part: the loop's name.
            make: makes the snapshot. It is called now, or while a loop inside this one offers its
                snapshot, and at no other time. It therefore has to hold a copy of all that such
                loops change, above all the states of the generators. What it makes is valid until
                this loop offers another snapshot or discards it.
        """

    def discard(self, part: str) -> None:
        """Say that this loop has ended."""


NO_CHECKPOINTS = Checkpointer()


class Flat:
    """A target that evaluates nothing, for making a template of a state.

    A loop that continues from a snapshot calls `init` to learn which fields a state has. Values and
    gradients then come from the snapshot.
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
    """Set generators to the given states."""
    for each, state in zip(generators, states.cpu(), strict=True):
        # A copy, since torch 2.13 crashes on a state that begins in the middle of its storage.
        each.set_state(state.clone())


def fields_of(prefix: str, state: Any) -> dict[str, Tensor]:
    """The tensors of a NamedTuple, and of those within it, under their names."""
    tensors: dict[str, Tensor] = {}
    for name, value in zip(state._fields, state, strict=True):
        inside = isinstance(value, tuple)
        key = f"{prefix}.{name}"
        tensors |= fields_of(key, value) if inside else {key: value}
    return tensors


def with_fields(prefix: str, state: State, tensors: Mapping[str, Tensor]) -> State:
    """A NamedTuple like `state`, with copies of the tensors that `fields_of` gave."""
    values: list[Any] = []
    for name, value in zip(state._fields, state, strict=True):  # type: ignore[attr-defined]
        key = f"{prefix}.{name}"
        if isinstance(value, tuple):
            values.append(with_fields(key, value, tensors))
        else:
            # Copies, since a loop writes into its state, and the snapshot must not change.
            values.append(tensors[key].to(value.device, copy=True))
    return type(state)(*values)


def runs_of(runs: Sequence[Any]) -> Snapshot:
    """The snapshot of some runs, with all fields of these dataclasses."""
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


def with_runs(kind: type[Run], snapshot: Snapshot, device: torch.device) -> list[Run]:
    """Restore the runs from what `runs_of` returned, with their draws on `device`."""
    runs = []
    for i, values in enumerate(snapshot.values["runs"]):
        # Copies, since a run adds to its lists, and the snapshot must not change.
        plain = {k: list(v) if isinstance(v, list) else v for k, v in values.items()}
        prefix = f"run.{i}."
        parts: dict[str, Any] = {
            name.removeprefix(prefix): tensor
            for name, tensor in snapshot.tensors.items()
            if name.startswith(prefix)
        }
        if "draws" in parts:
            # Each has its own memory: a slice of a tensor would be pickled with the entire tensor.
            parts["draws"] = [each.clone() for each in parts["draws"].to(device)]
        runs.append(kind(**plain, **parts))
    return runs


def snapshot_of(
    state: Any, runs: Sequence[Any], generators: Tensor | Sequence[torch.Generator]
) -> Snapshot:
    """The snapshot of a loop that has a state, runs and noise.

    Args:
        state: a NamedTuple of tensors.
        runs: one for each island.
        generators: all generators of the batch, or their states at an earlier time.
    """
    tensors, values = runs_of(runs)
    states = generators if isinstance(generators, Tensor) else generator_states(generators)
    return Snapshot({**fields_of("state", state), **tensors, "generators": states}, values)
