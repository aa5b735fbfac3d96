"""Rows of tables and runs of claims, looked for among the runs that were given and nowhere else."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from sbmc.checks import BadInput
from sbmc_studies.experiments.experiment import Row
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.settings import resolve, settings_hash
from sbmc_studies.records.finding import Runs
from sbmc_studies.records.pooling import SEEDS
from sbmc_studies.records.record import Record
from sbmc_studies.report.collect import Found, Study


class Given(Runs):
    """Finds runs of a study by their settings, as `RunsInFolder` does in a folder of records.

    Args:
        study: what was found.
    """

    def __init__(self, study: Study) -> None:
        self.study = study

    @cached_property
    def _runs(self) -> dict[tuple[str, str], tuple[Found, ...]]:
        found: dict[tuple[str, str], tuple[Found, ...]] = {}
        for setting in self.study.settings:
            seeds = tuple(run for run in setting.runs if run.record.seed in SEEDS)
            # Runs on other data come later, and are not what the experiment's tables are of.
            if seeds:
                found.setdefault((setting.method, setting.record.hash), seeds)
        return found

    def runs(self, row: Row) -> tuple[Found, ...]:
        """The runs of a row, of the seeds that tables pool; none if there are none."""
        experiment = self.study.experiment
        if experiment is None:
            return ()
        try:
            settings = resolve(experiment, get_method(row.method), row.preset, row.overrides)
        except BadInput:  # a setting that this version does not have
            return ()
        digest = settings_hash(self.study.name, row.method, settings)
        return self._runs.get((row.method, digest), ())

    def folder_of(self, record: Record) -> Path:
        """The folder that a record was read from."""
        runs = self._runs[record.method, record.hash]
        return next(run.folder for run in runs if run.record.seed == record.seed)

    def records_of(self, row: Row) -> list[Record]:
        """The records of a row that are there."""
        return [run.record for run in self.runs(row)]
