"""Rows of tables and runs of claims, looked for among the runs that were given and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from sbmc.checks import BadInput
from sbmc.report.collect import Found, Study
from sbmc.studies.claims import MissingRecords
from sbmc.studies.experiments import Row
from sbmc.studies.methods import get_method
from sbmc.studies.pooling import SEEDS, Pooled, pool
from sbmc.studies.settings import resolve, settings_hash


class Given:
    """Finds runs of a study by their settings, as `sbmc.studies` does in a folder of records.

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

    def pooled(self, row: Row) -> Pooled | None:
        """The runs of a row, pooled; None if there are none."""
        runs = self.runs(row)
        return pool([run.record for run in runs]) if runs else None

    def __call__(
        self,
        method: str,
        islands: int = 1,
        preset: str = "paper",
        *,
        seeds: int = len(SEEDS),
        **overrides: Any,
    ) -> Pooled:
        """What a claim asks for, as `sbmc.studies.claims.Runs` has it.

        Raises:
            MissingRecords: if there are fewer seeds.
        """
        if method != "map":
            overrides["islands"] = islands
        found = self.pooled(Row(method, method, preset, overrides))
        there = [record.seed for record in found.records] if found else []
        if found is None or len(there) < seeds:
            words = f"{method}{_changes(overrides)}"
            words += "" if preset == "paper" else f" ({preset})"
            have = f"has seed {', '.join(map(str, there))}" if there else "is not here"
            needed = f"seeds 0 to {seeds - 1} are" if seeds > 1 else "seed 0 is"
            raise MissingRecords(f"{words} {have}; {needed} needed")
        return found


def _changes(overrides: Mapping[str, Any]) -> str:
    short = {"islands": "P", "prior_variance": "v", "mutations": "M"}
    return "".join(
        f", {short.get(name, name.replace('_', ' '))} = {value}"
        for name, value in overrides.items()
    )
