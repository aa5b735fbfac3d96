"""Rows of tables and runs of claims, looked up among the runs of one page."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from sbmc.checks import BadInput
from sbmc_studies.experiments.experiment import Row
from sbmc_studies.records.finding import Runs
from sbmc_studies.records.pooling import SEEDS, row_hash
from sbmc_studies.records.record import Record
from sbmc_studies.report.collect import StoredRun, Study


class StudyRuns(Runs):
    """Finds runs of a study by their settings, as `RunsInFolder` does in a folder of records.

    Args:
        study: the runs of the page; no other record is looked at.
    """

    def __init__(self, study: Study) -> None:
        self.study = study

    @cached_property
    def _runs(self) -> dict[tuple[str, str], tuple[StoredRun, ...]]:
        runs: dict[tuple[str, str], tuple[StoredRun, ...]] = {}
        for setting in self.study.settings:
            seeds = tuple(run for run in setting.runs if run.record.seed in SEEDS)
            # Runs on other data come later, and the experiment's tables are not about them.
            if seeds:
                runs.setdefault((setting.method, setting.record.hash), seeds)
        return runs

    def runs(self, row: Row) -> tuple[StoredRun, ...]:
        """The runs of a row, of the seeds that tables pool; none if there are none."""
        experiment = self.study.experiment
        if experiment is None:
            return ()
        try:
            return self._runs.get((row.method, row_hash(experiment, row)), ())
        except BadInput:  # a setting that this version does not have
            return ()

    def folder_of(self, record: Record) -> Path:
        """The folder that a record was read from."""
        runs = self._runs[record.method, record.hash]
        return next(run.folder for run in runs if run.record.seed == record.seed)

    def records_of(self, row: Row) -> list[Record]:
        """The records of a row that are there."""
        return [run.record for run in self.runs(row)]
