"""The tables of the meta-classifier, the paper's and ours, in both protocols."""

from __future__ import annotations

from collections.abc import Sequence

from sbmc.report.given import Given
from sbmc.report.paper_tables.made import Made, our_cell, paper_label
from sbmc.report.tables import Cell
from sbmc.studies.confidence import has_confidence
from sbmc.studies.experiments import Experiment, Row
from sbmc.studies.pooling import Pooled, pool, row_islands
from sbmc.studies.tables.confidence import (
    KINDS,
    Kind,
    chosen_tables,
    confidence_rows,
    paper_row,
    table_title,
)
from sbmc.studies.tables.lines import MISSING, Column, seeded_label

OURS = "not in the paper"


def confidence_tables(experiment: Experiment, given: Given) -> list[Made]:
    """Fill the tables of the meta-classifier, as `sbmc.studies.tables.confidence` does.

    Args:
        experiment: whose.
        given: the runs.

    Returns:
        Those that a run fills a row of.
    """
    rows = [(row, _pooled(row, given)) for row in confidence_rows(experiment)]
    if not any(pooled for _, pooled in rows):
        return []
    made = []
    for protocol, kind in chosen_tables():
        shape = KINDS[kind]
        if not any(pooled and _metrics(pooled, shape, protocol) for _, pooled in rows):
            continue
        groups: list[tuple[Sequence[object], ...]] = []
        labels: dict[str, None] = {}
        for row, pooled in rows:
            lines = [_our_line(experiment, row, pooled, shape, protocol)]
            name, paper = paper_row(experiment, row, shape)
            if paper and protocol == "paper":
                labels[paper_label(name)] = None
                lines.append(_paper_line(paper, shape))
            groups.append(tuple(lines))
        headings = ("Setting", "P", *(heading for _, heading, _ in shape.columns))
        words = table_title(protocol, kind).split(" (")[0].replace("'", "’")
        title = f"meta-classifier, {words[0].lower()}{words[1:]}"
        made.append(Made(title, ", ".join(labels) or OURS, headings, tuple(groups)))
    return made


def _pooled(row: Row, given: Given) -> Pooled | None:
    found = [run.record for run in given.runs(row) if has_confidence(run.record)]
    return pool(found) if found else None


def _metrics(pooled: Pooled, shape: Kind, protocol: str) -> bool:
    return any(shape.metric(protocol, name) in pooled.values for name, _, _ in shape.columns)


def _our_line(
    experiment: Experiment, row: Row, pooled: Pooled | None, shape: Kind, protocol: str
) -> list[object]:
    islands = row_islands(experiment, row)
    label = seeded_label(row.label, pooled) if pooled else row.label
    cells: list[object] = []
    for name, _, digits in shape.columns:
        metric = shape.metric(protocol, name)
        value = pooled.values.get(metric) if pooled else None
        error = pooled.errors.get(metric) if pooled and len(pooled.records) > 1 else None
        # Not the metric's own name: an accuracy is a share here, as in the paper's tables.
        cells.append(our_cell(value, error, Column("", "", digits)))
    return [label, Cell(islands, islands), *cells]


def _paper_line(paper: dict[str, str], shape: Kind) -> list[object]:
    islands = paper["islands"]
    cells: list[object] = []
    for name, _, _ in shape.columns:
        text, error = paper.get(name), paper.get(f"{name}_se")
        if not text:
            cells.append(Cell(MISSING))
        else:
            cells.append(Cell(f"{text}±{error}" if error else text, float(text)))
    return ["the paper’s", Cell(islands or MISSING, float(islands) if islands else None), *cells]
