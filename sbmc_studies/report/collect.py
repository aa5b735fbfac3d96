"""From folders to studies: which records there are, pooled by setting, in the order of a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sbmc.checks import BadInput, require
from sbmc_studies.experiments.experiment import Experiment, Row, get_experiment
from sbmc_studies.experiments.methods import METHODS
from sbmc_studies.records.pooling import Pooled, pool, row_hash
from sbmc_studies.records.record import BadRecord, Record, read_record
from sbmc_studies.report.labels import name_settings

RECORD = "record.json"


@dataclass(frozen=True, eq=False)
class StoredRun:
    """A record and the folder that it was read from."""

    record: Record
    folder: Path


@dataclass(frozen=True, eq=False)
class Setting:
    """One method with one choice of settings: its completed seeds, pooled.

    Attributes:
        label: its name, which no other setting of the study has.
        runs: completed runs, by seed.
        pooled: their metrics and cost.
        rows: rows of the experiment's own tables that show it.
    """

    label: str
    runs: tuple[StoredRun, ...]
    pooled: Pooled
    rows: tuple[Row, ...] = ()

    @property
    def record(self) -> Record:
        """The record of the first seed."""
        return self.runs[0].record

    @property
    def method(self) -> str:
        """The method's name."""
        return self.record.method

    @property
    def islands(self) -> int | None:
        """P, if the settings have a number there."""
        islands = self.record.settings.get("islands")
        return islands if isinstance(islands, int) else None

    @property
    def in_paper(self) -> bool:
        """Whether the paper has numbers of it."""
        return any(row.paper for row in self.rows)

    @property
    def headline(self) -> bool:
        """Whether the experiment's short table has it."""
        return any(row.headline for row in self.rows)

    def value(self, metric: str) -> float | None:
        """Mean of a metric over the seeds."""
        return self.pooled.values.get(metric)

    def error(self, metric: str) -> float | None:
        """Its standard error; None for one seed."""
        return self.pooled.errors.get(metric) if len(self.runs) > 1 else None


@dataclass(frozen=True, eq=False)
class Study:
    """All records of one experiment.

    Attributes:
        name: the experiment's name.
        experiment: its settings and rows, if this version knows it.
        settings: those with completed runs, in the order of its tables.
        others: runs that failed or completed in part.
    """

    name: str
    experiment: Experiment | None
    settings: tuple[Setting, ...]
    others: tuple[StoredRun, ...]

    @property
    def runs(self) -> list[StoredRun]:
        """All completed runs."""
        return [run for setting in self.settings for run in setting.runs]

    def find(self, method: str) -> list[Setting]:
        """The settings of a method."""
        return [setting for setting in self.settings if setting.method == method]


@dataclass(frozen=True)
class Collection:
    """What a report is made from.

    Attributes:
        studies: one for each experiment, by name.
        unreadable: paths of files that are no records, with what is wrong with them.
    """

    studies: tuple[Study, ...]
    unreadable: tuple[tuple[str, str], ...] = field(default=())


def collect(folders: Sequence[Path]) -> Collection:
    """Read all records below some folders.

    Args:
        folders: at any height: of all records, of an experiment, a method, a setting or one run; or
            a `record.json` itself.

    Returns:
        The studies. A record that is found twice counts once.

    Raises:
        BadInput: if a folder does not exist, or has no readable record in it.
    """
    require(len(folders) > 0, "runs", "one folder or more", list(map(str, folders)))
    stored: dict[tuple[str, str, str, int], StoredRun] = {}
    unreadable: dict[str, str] = {}
    for folder in folders:
        require(folder.exists(), "runs", "a folder of records", str(folder))
        # Reading checks a record against the names of the folders above it.
        absolute = Path(os.path.abspath(folder))
        paths = _record_paths(absolute)
        rule = f"a folder with {RECORD} somewhere in it (`sbmc run EXPERIMENT --out FOLDER`)"
        require(bool(paths), "runs", rule, str(folder))
        for path in paths:
            try:
                record = read_record(path)
            except BadRecord as error:
                unreadable[str(folder / path.relative_to(absolute))] = str(error)
                continue
            key = record.experiment, record.method, record.hash, record.seed
            stored.setdefault(key, StoredRun(record, path.parent))
    if not stored:
        first = next(iter(unreadable.values()))
        raise BadInput(f"`runs` must hold at least one readable record, but got: {first}")
    names = sorted({key[0] for key in stored})
    studies = [
        _study(name, [run for key, run in stored.items() if key[0] == name]) for name in names
    ]
    return Collection(tuple(studies), tuple(sorted(unreadable.items())))


def _record_paths(folder: Path) -> list[Path]:
    if folder.is_file():
        return [folder] if folder.name == RECORD else []
    return sorted(path for path in folder.rglob(RECORD) if path.is_file())


def _study(name: str, runs: list[StoredRun]) -> Study:
    experiment = _experiment(name)
    rows = _rows_by_hash(experiment) if experiment else {}
    completed: dict[tuple[str, str], list[StoredRun]] = {}
    others = []
    for run in sorted(runs, key=lambda each: (each.record.method, each.record.hash)):
        if run.record.outcome == "completed":
            completed.setdefault((run.record.method, run.record.hash), []).append(run)
        else:
            others.append(run)
    keys = sorted(completed, key=lambda key: _rank(key, rows, completed[key][0].record))
    labels = name_settings(
        [(completed[key][0].record, tuple(row for _, row in rows.get(key, ()))) for key in keys]
    )
    settings = []
    for key, label in zip(keys, labels, strict=True):
        seeds = sorted(completed[key], key=lambda each: each.record.seed)
        shown = tuple(row for _, row in rows.get(key, ()))
        settings += _by_data(label, seeds, shown)
    return Study(name, experiment, tuple(settings), tuple(others))


def _by_data(label: str, seeds: list[StoredRun], rows: tuple[Row, ...]) -> list[Setting]:
    """Pool the seeds that ran on the same data; runs on other data are a setting of their own."""
    by_data: dict[str, list[StoredRun]] = {}
    for run in seeds:
        by_data.setdefault(repr(sorted(run.record.data.items(), key=repr)), []).append(run)
    settings = []
    for index, group in enumerate(by_data.values()):
        name = label if index == 0 else f"{label}, other data {index}"
        settings.append(Setting(name, tuple(group), pool([run.record for run in group]), rows))
    return settings


def _experiment(name: str) -> Experiment | None:
    try:
        return get_experiment(name)
    except BadInput:  # the toy study, or one of another version
        return None


def _rows_by_hash(experiment: Experiment) -> dict[tuple[str, str], list[tuple[int, Row]]]:
    rows: dict[tuple[str, str], list[tuple[int, Row]]] = {}
    for index, row in enumerate((*experiment.rows, *experiment.confidence_rows)):
        rows.setdefault((row.method, row_hash(experiment, row)), []).append((index, row))
    return rows


def _rank(
    key: tuple[str, str], rows: dict[tuple[str, str], list[tuple[int, Row]]], record: Record
) -> tuple:
    """Settings of the experiment's tables first, in their order; then by method, v, s and P."""
    method, digest = key
    listed = min((index for index, _ in rows.get(key, ())), default=len(rows) + 10_000)
    known = list(METHODS)
    values = [record.settings.get(name) for name in ("prior_variance", "s", "islands")]
    numbers = [float(each) if isinstance(each, int | float) else -1.0 for each in values]
    return listed, known.index(method) if method in known else len(known), method, *numbers, digest
