"""The list of tables: which records answer which question, as `questions.toml` has them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from sbmc_studies.experiments.experiment import Experiment, Row, get_experiment

# The experiment whose records take seconds each, and are made by `sbmc run reviewers`.
QUICK_EXPERIMENT = "digits"


@dataclass(frozen=True)
class Question:
    """A table of records of one experiment.

    Attributes:
        name: the word for it in the marks of a page.
        experiment: whose records it pools.
        rows: its rows, in order.
    """

    name: str
    experiment: Experiment
    rows: tuple[Row, ...]


@cache
def read_questions() -> dict[str, Question]:
    """All tables of records, by name and in order.

    Examples:
        >>> read_questions()["start"].experiment.name
        'mnist7'
    """
    return {
        table["name"]: Question(
            table["name"],
            get_experiment(table["experiment"]),
            tuple(_read_row(row) for row in table["rows"]),
        )
        for table in _content()["tables"]
    }


def weights_of_pairs() -> Mapping[str, int]:
    """How many weights are sampled, by pair of the gauntlet."""
    return _content()["weights"]


@cache
def _content() -> Mapping[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("questions.toml").read_text("utf-8"))


def _read_row(row: Mapping[str, Any]) -> Row:
    return Row(
        label=row["label"],
        method=row["method"],
        preset=row.get("preset", "paper"),
        overrides={**{k: row[k] for k in ("islands",) if k in row}, **row.get("set", {})},
        weighting=row.get("weighting"),
    )
