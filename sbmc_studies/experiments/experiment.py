"""The registry of experiments: one TOML file each, in `configs/`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from sbmc.checks import BadInput, nearest

PRESETS = ("paper", "best")


@dataclass(frozen=True)
class Row:
    """A row of an experiment's table: which records it pools, and the paper's row beside them.

    Attributes:
        label: the row's name in the table.
        method: the method whose records are pooled.
        preset: the preset that its settings come from.
        overrides: what differs from the preset.
        paper: method, islands and perhaps table of the paper's row beside it, or None where the
            paper has none.
        section: the part of the table that it belongs to.
        weighting: which way of combining islands is shown, if not that of the record.
        headline: whether the short table has it as well.
        differs: why our numbers are outside the tolerance of the paper's, if they are.
    """

    label: str
    method: str
    preset: str
    overrides: Mapping[str, Any]
    paper: Mapping[str, Any] | None = None
    section: str = ""
    weighting: str | None = None
    headline: bool = False
    differs: str = ""


@dataclass(frozen=True)
class Experiment:
    """A data set, a network and the settings of every method on them, as the TOML file has them.

    Attributes:
        name: the experiment's name, which is that of its file.
        title: one line for `sbmc experiments`.
        dataset: name of the data set.
        network: name of the network.
        default_methods: what runs where no method is named.
        default_preset: the preset where none is named.
        settings: settings of all methods.
        training: settings of the anchor's and the ensemble's training.
        presets: method name to preset name to settings.
        rows: the rows of its table, in order.
        curves: figure name to the curves in it; see `sbmc_studies.figures.epochs`.
        confidence_rows: the rows of its confidence tables and figures; empty if all rows are.
    """

    name: str
    title: str
    dataset: str
    network: str
    default_methods: tuple[str, ...]
    default_preset: str
    settings: Mapping[str, Any]
    training: Mapping[str, Any]
    presets: Mapping[str, Mapping[str, Mapping[str, Any]]]
    rows: tuple[Row, ...]
    curves: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    confidence_rows: tuple[Row, ...] = ()


def experiment_names() -> list[str]:
    """List the names of all experiments, in alphabetical order.

    Examples:
        >>> {"digits", "mnist7"} <= set(experiment_names())
        True
    """
    files = resources.files(__package__).joinpath("configs").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


@cache
def get_experiment(name: str) -> Experiment:
    """Read an experiment by its name.

    Args:
        name: one of `experiment_names()`.

    Returns:
        The experiment.

    Raises:
        BadInput: if there is no such experiment; the message has the nearest name.

    Examples:
        >>> get_experiment("mnist7").settings["prior_variance"]
        0.1
    """
    names = experiment_names()
    if name not in names:
        raise BadInput(
            f"`experiment` must be one of {', '.join(names)}, but got {name!r}."
            + nearest(name, names)
        )
    text = resources.files(__package__).joinpath(f"configs/{name}.toml").read_text("utf-8")
    config = tomllib.loads(text)
    rows = [_read_row(section, row) for section, some in config["rows"].items() for row in some]
    return Experiment(
        name=name,
        title=config["title"],
        dataset=config["dataset"],
        network=config["network"],
        default_methods=tuple(config["default_methods"]),
        default_preset=config["default_preset"],
        settings=config["settings"],
        training=config["training"],
        presets=config["methods"],
        rows=tuple(rows),
        curves=config.get("curves", {}),
        confidence_rows=tuple(_read_row("paper", row) for row in config.get("confidence_rows", ())),
    )


def _read_row(section: str, row: Mapping[str, Any]) -> Row:
    return Row(
        label=row["label"],
        method=row["method"],
        preset=row.get("preset", section),
        overrides={**{k: row[k] for k in ("islands",) if k in row}, **row.get("set", {})},
        paper=row.get("paper"),
        section=section,
        weighting=row.get("weighting"),
        headline=row.get("headline", False),
        differs=row.get("differs", ""),
    )
