"""The tables of `sbmc table` on the page, filled from the runs of the page and no others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from sbmc.report.tables import Cell
from sbmc_studies.paper.tables.appendix import build_appendix
from sbmc_studies.paper.tables.confidence import build_confidence, chosen_tables
from sbmc_studies.paper.tables.lines import PAPER, Entry, Line
from sbmc_studies.paper.tables.paper_index import read_index
from sbmc_studies.paper.tables.specs import Block
from sbmc_studies.paper.tables.times import build_times
from sbmc_studies.report.collect import Study
from sbmc_studies.report.study_runs import StudyRuns

OURS = "not in the paper"


@dataclass(frozen=True)
class FilledTable:
    """A table of the paper with our numbers in it.

    Attributes:
        title: what it shows.
        label: what the paper calls it, or `OURS`.
        headings: of its columns.
        groups: of rows that stay together: ours, and the paper's below it.
    """

    title: str
    label: str
    headings: tuple[str, ...]
    groups: tuple[tuple[Sequence[object], ...], ...]


def paper_tables(study: Study) -> list[FilledTable]:
    """Fill the tables that `sbmc table` and `sbmc table --confidence` make of a study.

    Args:
        study: the runs of the page; no other record is looked at.

    Returns:
        The tables of the paper's appendix, those of the meta-classifier, and that of wall times,
        as far as a run fills a row of them.
    """
    experiment = study.experiment
    if experiment is None:
        return []
    runs = StudyRuns(study)
    appendix = build_appendix(experiment, runs)
    tables = [_fill(block, block.title) for block in appendix if block.filled]
    for protocol, kind in chosen_tables():
        block = build_confidence(experiment, runs, protocol, kind)
        if block.filled:
            title = block.title.split(" (")[0].replace("'", "’")
            tables.append(_fill(block, f"meta-classifier, {title[0].lower()}{title[1:]}"))
    times = build_times(experiment, runs)
    return [*tables, _fill(times, times.title)] if times.filled else tables


def _fill(block: Block, title: str) -> FilledTable:
    groups: list[list[Sequence[object]]] = []
    for line in block.lines:
        cells = _cells(line)
        # The paper's line stays below ours when the table is sorted.
        if line.cells[0] == PAPER:
            groups[-1].append(["the paper’s", *cells[1:]])
        else:
            groups.append([cells])
    headings = ["Setting", *block.headings[1:]]
    for at, heading in enumerate(headings):
        if heading == "paper":
            headings[at] = f"{headings[at - 1]}, the paper’s"
    labels = dict.fromkeys(paper_label(name) for name in block.papers)
    label = ", ".join(labels) or OURS
    return FilledTable(title, label, tuple(headings), tuple(tuple(group) for group in groups))


def _cells(line: Line) -> list[object]:
    """Numbers as cells that can be sorted; texts as they are."""
    first, *others = line.cells
    cells: list[object] = [first]
    for text in others:
        value = text.value if isinstance(text, Entry) else None
        good = text.good if isinstance(text, Entry) else None
        note = None if good is None else "good" if good else "bad"
        exact = None if value is None else float(f"{value:.8g}")
        cells.append(Cell(str(text), exact, note))
    return cells


@cache
def paper_label(table: str) -> str:
    """What the paper calls one of its tables.

    Args:
        table: its name as data.

    Returns:
        Its number or its LaTeX label; the name itself if the list of the paper's tables lacks it.

    Examples:
        >>> paper_label("mnist7_s_ablation"), paper_label("mnist7_main")
        ('tab:metric_diffs_mnist', 'Table 1')
    """
    labels: dict[str, None] = {}
    for entry in read_index():
        if table in (entry.table, entry.confidence):
            names = re.split(r"[;,]", entry.name.split(" (")[0])
            labels |= {name.strip(): None for name in names if name.strip()[:3].lower() == "tab"}
    return ", ".join(labels) or table
