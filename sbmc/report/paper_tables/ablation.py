"""The paper's tables of methods, over s and over P."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sbmc.report.given import Given
from sbmc.report.paper_tables.made import Made, our_cell, paper_label
from sbmc.report.tables import Cell
from sbmc.studies.experiments import Experiment
from sbmc.studies.paper import PaperRow, paper_rows, read_table
from sbmc.studies.pooling import Pooled
from sbmc.studies.tables.appendix import NOT_RERUN, Spec, row_like
from sbmc.studies.tables.columns import entropies, first_order
from sbmc.studies.tables.lines import MISSING, Column, agrees, number, seeded_label


def ablation_tables(experiment: Experiment, spec: Spec, given: Given) -> list[Made]:
    """Fill one of the paper's tables of methods, as `appendix.build_ablation` does.

    Args:
        experiment: whose.
        spec: which one.
        given: the runs.

    Returns:
        Two tables: accuracy, NLL, Brier score, ECE and H_ep; and H_tot. None if no run fills a row.
    """
    rows = [(paper, row_like(experiment, spec, paper)) for paper in paper_rows(spec.paper)]
    pooled = [given.pooled(row) if row else None for _, row in rows]
    if not any(pooled):
        return []
    ece = "ece" in read_table(spec.paper)[0]
    parts = {
        "": (*first_order(ece=ece), *entropies(experiment, "epistemic")),
        ", total entropies": entropies(experiment, "total"),
    }
    made = []
    for words, columns in parts.items():
        groups: list[tuple[Sequence[object], ...]] = []
        for (paper, row), own in zip(rows, pooled, strict=True):
            groups += _groups(paper, row.label if row else None, own, columns)
        headings = ("Setting", "P", *(column.heading for column in columns), "epochs")
        title = f"{spec.title}{words}"
        made.append(Made(title, paper_label(spec.paper), headings, tuple(groups)))
    return made


def _groups(
    paper: PaperRow, label: str | None, own: Pooled | None, columns: Sequence[Column]
) -> list[tuple[Sequence[object], ...]]:
    islands = Cell(MISSING if paper.islands is None else paper.islands, paper.islands)
    if label is None:
        return [(_paper_line(NOT_RERUN, islands, paper, None, columns),)]
    if not (paper.method.endswith("smc") and (paper.islands or 1) > 1):
        ours = _our_line(label, islands, own, columns)
        return [(ours, _paper_line("the paper’s", islands, paper, own, columns))]
    # The paper's stands below the way of weighting that it is nearer to.
    evidence, equal = (own.weighted(way) if own else None for way in ("evidence", "equal"))
    first = _our_line(f"{label}, by evidence", islands, evidence, columns)
    second = _our_line(f"{label}, equal weights", islands, equal, columns)
    return [(first,), (second, _paper_line("the paper’s", islands, paper, equal, columns))]


def _our_line(
    label: str, islands: Cell, own: Pooled | None, columns: Sequence[Column]
) -> list[object]:
    if own is None:
        return [label, islands, *[Cell(MISSING)] * (len(columns) + 1)]
    several = len(own.records) > 1
    cells = [
        our_cell(own.values.get(c.metric), own.errors.get(c.metric) if several else None, c)
        for c in columns
    ]
    return [seeded_label(label, own), islands, *cells, _epochs(own.cost["epochs"], ",.4g")]


def _paper_line(
    label: str, islands: Cell, paper: PaperRow, own: Pooled | None, columns: Sequence[Column]
) -> list[object]:
    cells: list[object] = []
    for column in columns:
        value, error = paper.values.get(column.metric), paper.errors.get(column.metric)
        good = agrees(paper, own, column)
        mark = "" if good is None else " ✓" if good else " ✗"
        note = None if good is None else "good" if good else "bad"
        cells.append(Cell(number(value, error, column) + mark, value, note))
    return [label, islands, *cells, _epochs(paper.epochs, ",g")]


def _epochs(epochs: float | None, form: str) -> Cell:
    known = epochs is not None and math.isfinite(epochs)
    return Cell(f"{epochs:{form}}", epochs) if known else Cell(MISSING)
