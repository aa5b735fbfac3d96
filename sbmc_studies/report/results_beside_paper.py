"""Our results beside the paper's: which row of the paper belongs to a setting, and what agrees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sbmc.checks import BadInput
from sbmc_studies.experiments.experiment import Row
from sbmc_studies.paper.numbers import PaperRow, find_row
from sbmc_studies.paper.tables.columns import table_columns
from sbmc_studies.paper.tables.lines import NOT_COMPARED, Column, within_tolerance
from sbmc_studies.records.pooling import Pooled
from sbmc_studies.report.collect import Setting, Study


@dataclass(frozen=True, eq=False)
class ResultLine:
    """A line of the table: a setting, with its islands combined in one way.

    Attributes:
        label: its name, with the way of weighting islands if there are several.
        setting: the setting.
        pooled: its metrics, with islands combined in that way.
        paper: the paper's row beside it, if there is one.
        why: the reason for a difference that the experiment's file gives.
    """

    label: str
    setting: Setting
    pooled: Pooled
    paper: PaperRow | None = None
    why: str = ""

    def agrees(self, metric: str) -> bool | None:
        """Whether ours is within the tolerance; None if one of the two has no number."""
        if self.paper is None or metric in NOT_COMPARED:
            return None
        if metric not in self.paper.values or metric not in self.pooled.values:
            return None
        return within_tolerance(
            metric,
            self.pooled.values[metric],
            self.paper.values[metric],
            self.pooled.errors[metric],
            self.paper.errors.get(metric, 0.0),
        )


# What any table has, if its records have it.
_FIRST = (
    Column("accuracy", "accuracy %", 1),
    Column("nll", "NLL", 3),
    Column("brier", "Brier", 3),
    Column("ece", "ECE %", 1),
)
_ENTROPIES = (
    Column("entropy.epistemic.correct", "H_ep correct", 3),
    Column("entropy.epistemic.incorrect", "H_ep incorrect", 3),
    Column("entropy.epistemic.ood.all", "H_ep OOD", 3),
)
# Of interest where there is nothing out of domain.
_TOTALS = (
    Column("entropy.total.correct", "H_tot correct", 3),
    Column("entropy.total.incorrect", "H_tot incorrect", 3),
)


def result_columns(study: Study) -> list[Column]:
    """The columns of a study's table.

    Args:
        study: our records.

    Returns:
        Those of the experiment's own table and of any table, as far as a record has them.
    """
    further = table_columns(study.experiment) if study.experiment else _ENTROPIES
    first = {column.metric for column in _FIRST}
    known = {metric for setting in study.settings for metric in setting.pooled.values}
    has_ood = any(name.startswith("entropy.epistemic.ood.") for name in known)
    columns = [*_FIRST, *(column for column in further if column.metric not in first)]
    columns += () if has_ood else _TOTALS
    return [column for column in columns if column.metric in known]


def result_lines(study: Study) -> Iterator[ResultLine]:
    """All lines of a study's table.

    Args:
        study: our records.

    Yields:
        One for each setting, and one more for each further way in which its experiment's table
        combines its islands.
    """
    for setting in study.settings:
        ways: dict[str | None, Row] = {}
        for row in setting.rows:
            if row.weighting not in ways or (row.paper and not ways[row.weighting].paper):
                ways[row.weighting] = row
        if not ways:
            yield ResultLine(setting.label, setting, setting.pooled)
        for way, row in ways.items():
            pooled = setting.pooled.weighted(way) if way else setting.pooled
            label = f"{setting.label}, {_WAYS.get(way, way)}" if len(ways) > 1 else setting.label
            yield ResultLine(label, setting, pooled, _paper_row(study, row), row.differs)


def count_agreeing(study: Study) -> tuple[int, int]:
    """How many of the paper's numbers ours agree with, and how many there are to compare."""
    columns = result_columns(study)
    verdicts = [
        verdict
        for line in result_lines(study)
        for column in columns
        if (verdict := line.agrees(column.metric)) is not None
    ]
    return sum(verdicts), len(verdicts)


_WAYS = {None: "by evidence", "evidence": "by evidence", "equal": "equal weights"}


def _paper_row(study: Study, row: Row) -> PaperRow | None:
    if not row.paper:
        return None
    try:
        return find_row(study.name, **row.paper)
    except (BadInput, TypeError):  # a table or a column that this version does not have
        return None
