"""The tables of the paper's appendix, made anew: a row for each row of the paper's.

A study's configuration names the tables (`[[tables]]`); which methods, s, v and P there are is read
from the paper's own table, and `rules` add what the paper says elsewhere, such as the number of
mutations.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sbmc.report.numbers import MISSING
from sbmc_studies.experiments.experiment import Experiment, Row
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.settings import resolve
from sbmc_studies.paper.numbers import PaperRow, paper_rows, read_table
from sbmc_studies.paper.tables.columns import entropies, first_order
from sbmc_studies.paper.tables.groups import build_groups
from sbmc_studies.paper.tables.lines import (
    PAPER,
    Column,
    Entry,
    Line,
    our_cells,
    paper_cells,
    plain,
    seeded_label,
)
from sbmc_studies.paper.tables.specs import (
    LONG_CHAIN,
    NOT_RERUN,
    Block,
    Spec,
    appendix_specs,
    chain_row,
    paper_setting,
)
from sbmc_studies.records.finding import Runs, runs_of
from sbmc_studies.records.pooling import Pooled

FOOTNOTE = (
    "S-SMC's islands are combined in both ways, by evidence and with equal weights; the paper's "
    "numbers, which are nearer to those of equal weights, are marked against the latter. "
    f"{MISSING}: no record, or not given."
)


def row_like(experiment: Experiment, spec: Spec, paper: PaperRow) -> Row | None:
    """Our row beside one of the paper's.

    Args:
        experiment: whose.
        spec: the table.
        paper: the paper's row.

    Returns:
        The row, with all that differs from the paper's preset; None for a chain that is not rerun.
    """
    if paper.method == LONG_CHAIN:
        return _chain(experiment, spec, paper)
    return paper_setting(experiment, spec, paper.method, paper.s, paper.variance, paper.islands)


def build_appendix(
    experiment: Experiment, source: Path | Runs, tables: Sequence[str] | None = None
) -> list[Block]:
    """Make the tables of the paper's appendix that the study names.

    Args:
        experiment: whose.
        source: the folder of all records, or runs that were found otherwise.
        tables: names of the paper's tables; all of the study's if not given.

    Returns:
        The tables: those of methods in two parts, as the paper prints them (metrics and epistemic
        entropies, then total entropies); those of groups whole.
    """
    blocks = []
    for spec in appendix_specs(experiment.name):
        if tables is not None and spec.paper not in tables:
            continue
        if spec.by_group:
            blocks.append(build_groups(experiment, spec, source))
        else:
            blocks += build_ablation(experiment, spec, source)
    return blocks


def build_ablation(experiment: Experiment, spec: Spec, source: Path | Runs) -> list[Block]:
    """Make one of the paper's tables of methods.

    Args:
        experiment: whose.
        spec: which one.
        source: the folder of all records, or runs that were found otherwise.

    Returns:
        Two tables: accuracy, NLL, Brier score, ECE and H_ep; and H_tot.
    """
    ece = "ece" in read_table(spec.paper)[0]
    parts = {
        "": (*first_order(ece=ece), *entropies(experiment, "epistemic")),
        ", total entropies": entropies(experiment, "total"),
    }
    runs = runs_of(source, experiment.name)
    rows = [(paper, row_like(experiment, spec, paper)) for paper in paper_rows(spec.paper)]
    all_pooled = [runs.pooled(row) if row else None for _, row in rows]
    blocks = []
    for part, columns in parts.items():
        lines: list[Line] = []
        for (paper, row), pooled in zip(rows, all_pooled, strict=True):
            lines += _lines(paper, row, pooled, columns)
        headings = ("", "P", *(column.heading for column in columns), "epochs")
        title, filled = f"{spec.title}{part}", any(all_pooled)
        blocks.append(Block(spec.paper, title, headings, tuple(lines), (spec.paper,), filled))
    return blocks


def _lines(
    paper: PaperRow, row: Row | None, pooled: Pooled | None, columns: Sequence[Column]
) -> list[Line]:
    islands = plain(paper.islands)
    lines: list[Line] = []
    weighted: Pooled | None = None
    if row is not None:
        ways = {"": ""}
        if paper.method.endswith("smc") and (paper.islands or 1) > 1:
            ways = {", by evidence": "evidence", ", equal weights": "equal"}
        for ending, weighting in ways.items():
            weighted = pooled.weighted(weighting) if pooled else None
            lines.append(_our_line(f"{row.label}{ending}", islands, weighted, columns))
    label = PAPER if row is not None else NOT_RERUN
    cells = (*paper_cells(paper, weighted, columns), plain(paper.epochs, ",g"))
    return [*lines, Line((label, islands, *cells), quiet=True)]


def _our_line(label: str, islands: Entry, pooled: Pooled | None, columns: Sequence[Column]) -> Line:
    if pooled is None:
        return Line((label, islands, *[MISSING] * (len(columns) + 1)))
    spent = plain(pooled.cost["epochs"], ",.4g")
    return Line((seeded_label(label, pooled), islands, *our_cells(pooled, columns), spent))


def _chain(experiment: Experiment, spec: Spec, paper: PaperRow) -> Row | None:
    row = chain_row(experiment, spec)
    if row is None:
        return None
    steps = resolve(experiment, get_method(row.method), row.preset, row.overrides)["steps"]
    return row if steps == paper.epochs else None
