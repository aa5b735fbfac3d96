"""From folders to studies: which records there are, pooled by setting, in the order of a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sbmc.checks import BadInput, require
from sbmc_studies.experiments.experiment import Experiment, Row, get_experiment
from sbmc_studies.experiments.methods import METHODS, get_method
from sbmc_studies.experiments.settings import resolve, settings_hash
from sbmc_studies.records.pooling import Pooled, pool
from sbmc_studies.records.record import BadRecord, Record, read_record
from sbmc_studies.report.labels import name_settings

RECORD = "record.json"


@dataclass(frozen=True, eq=False)
class Found:
    """A record and the folder that it stands in."""

    record: Record
    folder: Path


@dataclass(frozen=True, eq=False)
class Setting:
    """One method with one choice of settings: its completed seeds, pooled.

    Attributes:
        label: its name, told apart from all others of the study.
        runs: completed runs, by seed.
        pooled: their metrics and cost.
        rows: rows of the experiment's own tables that show it.
    """

    label: str
    runs: tuple[Found, ...]
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
    """All that was found of one experiment.

    Attributes:
        name: the experiment's name.
        experiment: its file, if this version knows it.
        settings: those with completed runs, in the order of its tables.
        others: runs that failed or completed in part.
    """

    name: str
    experiment: Experiment | None
    settings: tuple[Setting, ...]
    others: tuple[Found, ...]

    @property
    def runs(self) -> list[Found]:
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


def collect(places: Sequence[Path]) -> Collection:
    """Read all records below some folders.

    Args:
        places: folders at any height: of all records, of an experiment, a method, a setting or one
            run; or a `record.json` itself.

    Returns:
        The studies. A record that is found twice counts once.

    Raises:
        BadInput: if a place is not there, or has no readable record in it.
    """
    require(len(places) > 0, "runs", "one folder or more", list(map(str, places)))
    found: dict[tuple[str, str, str, int], Found] = {}
    unreadable: dict[str, str] = {}
    for place in places:
        require(place.exists(), "runs", "a folder of records", str(place))
        # A record is held to its place, so the names of all folders above it are needed.
        paths = _record_paths(Path(os.path.abspath(place)))
        rule = f"a folder with {RECORD} somewhere in it (`sbmc run EXPERIMENT --out FOLDER`)"
        require(bool(paths), "runs", rule, str(place))
        for path in paths:
            try:
                record = read_record(path)
            except BadRecord as error:
                unreadable[str(place / path.relative_to(os.path.abspath(place)))] = str(error)
                continue
            key = record.experiment, record.method, record.hash, record.seed
            found.setdefault(key, Found(record, path.parent))
    if not found:
        first = next(iter(unreadable.values()))
        raise BadInput(f"`runs` must hold at least one readable record, but got: {first}")
    names = sorted({key[0] for key in found})
    studies = [
        _study(name, [run for key, run in found.items() if key[0] == name]) for name in names
    ]
    return Collection(tuple(studies), tuple(sorted(unreadable.items())))


def _record_paths(place: Path) -> list[Path]:
    if place.is_file():
        return [place] if place.name == RECORD else []
    return sorted(path for path in place.rglob(RECORD) if path.is_file())


def _study(name: str, runs: list[Found]) -> Study:
    experiment = _experiment(name)
    rows = _rows_by_hash(experiment) if experiment else {}
    completed: dict[tuple[str, str], list[Found]] = {}
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


def _by_data(label: str, seeds: list[Found], rows: tuple[Row, ...]) -> list[Setting]:
    """Pool what can be pooled: runs on other data, or with other metrics, stand for themselves."""
    by_data: dict[str, list[Found]] = {}
    for run in seeds:
        by_data.setdefault(repr(sorted(run.record.data.items(), key=repr)), []).append(run)
    made = []
    for index, group in enumerate(by_data.values()):
        name = label if index == 0 else f"{label}, other data {index}"
        made.append(Setting(name, tuple(group), pool([run.record for run in group]), rows))
    return made


def _experiment(name: str) -> Experiment | None:
    try:
        return get_experiment(name)
    except BadInput:  # the toy study, or one of another version
        return None


def _rows_by_hash(experiment: Experiment) -> dict[tuple[str, str], list[tuple[int, Row]]]:
    found: dict[tuple[str, str], list[tuple[int, Row]]] = {}
    for index, row in enumerate((*experiment.rows, *experiment.confidence_rows)):
        settings = resolve(experiment, get_method(row.method), row.preset, row.overrides)
        digest = settings_hash(experiment.name, row.method, settings)
        found.setdefault((row.method, digest), []).append((index, row))
    return found


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
