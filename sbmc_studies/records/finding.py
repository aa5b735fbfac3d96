"""Finds the pooled runs of a setting, which tables and claims are made from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sbmc_studies.experiments.experiment import Row, get_experiment
from sbmc_studies.records.pooling import SEEDS, Pooled, find_records, pool
from sbmc_studies.records.record import Record

_SHORT = {"islands": "P", "prior_variance": "v", "mutations": "M"}


class MissingRecords(LookupError):
    """A claim cannot be checked: not all of its runs are there."""


class Runs(ABC):
    """Finds the pooled runs of one experiment."""

    @abstractmethod
    def records_of(self, row: Row) -> Sequence[Record]:
        """The records of a row, of the seeds that tables pool; none if there are none."""

    @abstractmethod
    def folder_of(self, record: Record) -> Path:
        """The folder of the run that a record belongs to."""

    def pooled(self, row: Row) -> Pooled | None:
        """The runs of a row, pooled; None if there are none."""
        records = self.records_of(row)
        return pool(records) if records else None

    def __call__(
        self,
        method: str,
        islands: int = 1,
        preset: str = "paper",
        *,
        seeds: int = len(SEEDS),
        **overrides: Any,
    ) -> Pooled:
        """Pool the seeds of a method, as a claim asks for them.

        Args:
            method: its name.
            islands: P; the MAP has no such setting, and ignores it.
            preset: the settings to start from.
            seeds: how many there must be.
            overrides: settings that differ from the preset's.

        Raises:
            MissingRecords: if there are fewer seeds.
        """
        if method != "map":
            overrides["islands"] = islands
        records = self.records_of(Row(method, method, preset, overrides))
        if len(records) < seeds:
            setting = f"{method}{_changes(overrides)}"
            setting += "" if preset == "paper" else f" ({preset})"
            present = ", ".join(str(record.seed) for record in records)
            have = f"has seed {present}" if present else "is not here"
            needed = f"seeds 0 to {seeds - 1} are" if seeds > 1 else "seed 0 is"
            raise MissingRecords(f"{setting} {have}; {needed} needed")
        return pool(records)


class RunsInFolder(Runs):
    """Finds runs in a folder of records.

    Args:
        records: the folder of all records.
        experiment: the experiment's name.
    """

    def __init__(self, records: Path, experiment: str) -> None:
        self.records = records
        self.experiment = experiment

    def records_of(self, row: Row) -> Sequence[Record]:
        """The records of a row that are there."""
        return find_records(self.records, get_experiment(self.experiment), row)

    def folder_of(self, record: Record) -> Path:
        """The folder of the run that a record belongs to."""
        return record.folder(self.records)


def runs_of(source: Path | Runs, experiment: str) -> Runs:
    """The runs in a folder of all records; `Runs` are handed back as they are."""
    return source if isinstance(source, Runs) else RunsInFolder(source, experiment)


def _changes(overrides: Mapping[str, Any]) -> str:
    return "".join(
        f", {_SHORT.get(name, name.replace('_', ' '))} = {value}"
        for name, value in overrides.items()
    )
