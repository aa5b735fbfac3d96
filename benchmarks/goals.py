"""What the speed benchmark has to reach, and by how much a ratio may fall."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JAX_PEERS = ("blackjax", "numpyro", "patches")
# A ratio below this part of the last committed record's has fallen too far.
KEPT = 0.8


@dataclass(frozen=True)
class Goal:
    """A figure of one row: times as fast as a peer, or the fraction of the roofline.

    Attributes:
        workload: its name.
        particles: of the row.
        against: a contender, `jax` (the fastest of the JAX peers) or `roofline`.
        required: the benchmark fails below it.
        goal: what to aim at.
        algorithm: of the row.
    """

    workload: str
    particles: int
    against: str
    required: float
    goal: float
    algorithm: str = "hmc"


def _goals(workload: str, particles: tuple[int, ...], **figures: tuple[float, float]) -> list[Goal]:
    return [
        Goal(workload, count, against, *pair)
        for count in particles
        for against, pair in figures.items()
    ]


GOALS = [
    *_goals("mnist7", (10, 80), pyro=(7, 15), jax=(4, 10), roofline=(0.12, 0.30)),
    *_goals("strided", (10,), pyro=(3, 8), jax=(2, 5)),
    *_goals("head", (80,), pyro=(12, 20), jax=(1.5, 3), roofline=(0.45, 0.70)),
    *_goals("cifar", (10, 40), pyro=(3.5, 4), jax=(1.3, 1.6), roofline=(0.70, 0.85)),
    *_goals("mlp", (1_000,), pyro=(50, 200), jax=(1, 2)),
    *_goals("regression", (10, 100), plain=(10, 12), jax=(1, 2)),
    *_goals("transformer", (10,), jax=(1, 1.5)),
]


def figure(row: Mapping[str, Any], against: str) -> float | None:
    """A row's figure for a goal; None if it was not measured."""
    if against == "roofline":
        return row["roofline"]
    names = JAX_PEERS if against == "jax" else (against,)
    measured = [row["ratios"][name] for name in names if name in row["ratios"]]
    return min(measured) if measured else None


def find_row(record: Mapping[str, Any], goal: Goal) -> Mapping[str, Any] | None:
    """The row that a goal is about."""
    key = goal.workload, goal.algorithm, goal.particles
    return next((row for row in record["rows"] if _key(row) == key), None)


def find_missed(record: Mapping[str, Any], goals: Sequence[Goal] = GOALS) -> list[str]:
    """Required figures that a record misses, in words; one that was not measured is missed."""
    missed = []
    for goal in goals:
        row = find_row(record, goal)
        got = figure(row, goal.against) if row else None
        if got is None:
            missed.append(f"{_name(goal)}: not measured, {show(goal.required, goal)} required")
        elif got < goal.required:
            missed.append(f"{_name(goal)}: {show(got, goal)}, {show(goal.required, goal)} required")
    return missed


def find_fallen(record: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[str]:
    """Ratios that have fallen by more than a fifth since another record, in words.

    Args:
        record: the new one.
        before: the last committed one, or None. Records of other machines, or made with another
            number of threads, say nothing about this one.

    Returns:
        One line for each.
    """
    if before is None or not comparable(record, before):
        return []
    old = {_key(row): row for row in before["rows"]}
    fallen = []
    for row in record["rows"]:
        was = old.get(_key(row))
        for peer, ratio in row["ratios"].items():
            earlier = was["ratios"].get(peer) if was else None
            if earlier is not None and ratio < KEPT * earlier:
                fallen.append(
                    f"{row['title']}, {row['algorithm']}, {row['particles']} particles, against "
                    f"{peer}: {ratio:.2f}×, {1 - ratio / earlier:.0%} below the last record's "
                    f"{earlier:.2f}×"
                )
    return fallen


def with_rows(
    rows: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Rows of a record, of which some are replaced, and new ones come last."""
    replaced = {_key(row): row for row in new}
    kept = [replaced.pop(_key(row), row) for row in rows]
    return [*kept, *replaced.values()]


def comparable(record: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether two records are of the same kind of machine, and used it alike."""

    def kind(each: Mapping[str, Any]) -> tuple[Any, ...]:
        hardware = each["hardware"]
        return each["quick"], each["threads"], hardware["processor"], hardware["cores"]

    return kind(record) == kind(before)


def committed_record(file: Path) -> dict[str, Any] | None:
    """The record as it was last committed; the file itself where there is no history.

    A file that an earlier run of the benchmark wrote is no measure: ratios could creep down.
    """
    done = subprocess.run(
        ["git", "show", f"HEAD:./{file.name}"],
        cwd=file.parent if file.parent.is_dir() else None,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return json.loads(done.stdout)
    inside = subprocess.run(["git", "rev-parse"], cwd=file.parent, capture_output=True, check=False)
    if inside.returncode == 0 or not file.exists():
        return None
    return json.loads(file.read_text("utf-8"))


def show(value: float, goal: Goal) -> str:
    """A figure as the goal's table has it."""
    if goal.against == "full":  # an epoch in mini-batches over one on all data, at most
        return f"{1 / value:.3g}× as long"
    return f"{value:.0%}" if goal.against == "roofline" else f"{value:.3g}×"


def _name(goal: Goal) -> str:
    against = {
        "plain": "against a plain loop",
        "pyro": "against Pyro",
        "jax": "against the best JAX peer",
        "full": "beside an epoch on all data",
        "posteriors": "against posteriors",
        "trainings": "against plain trainings",
    }
    return f"{goal.workload}, {goal.particles} particles, {against.get(goal.against, 'roofline')}"


def _key(row: Mapping[str, Any]) -> tuple[str, str, int]:
    return row["workload"], row["algorithm"], row["particles"]
