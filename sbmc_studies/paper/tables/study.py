"""A study's own table from records: ours beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sbmc.report.numbers import MISSING
from sbmc_studies.experiments.experiment import Experiment, Row
from sbmc_studies.paper.numbers import PaperRow, find_row, gold_standards
from sbmc_studies.paper.tables.appendix import build_appendix
from sbmc_studies.paper.tables.columns import COLUMNS, table_columns
from sbmc_studies.paper.tables.lines import (
    PAPER,
    Column,
    Line,
    agrees,
    count,
    markdown_lines,
    number,
    our_cells,
    paper_cells,
    render_lines,
    seeded_label,
)
from sbmc_studies.paper.tables.pages import fill_marks
from sbmc_studies.paper.tables.specs import NOT_RERUN, appendix_specs
from sbmc_studies.paper.tables.times import build_times
from sbmc_studies.records.pooling import Pooled, find_records, pool, row_islands

if TYPE_CHECKING:
    from rich.console import RenderableType

# The word for the short table, beside the names of sections.
HEADLINE = "headline"


def headings(columns: Sequence[Column] = COLUMNS) -> list[str]:
    """The headings of a table."""
    return ["", "P", *(column.heading for column in columns), "epochs", "total", "seconds", "× DE"]


def build_table(
    experiment: Experiment, records: Path, sections: Sequence[str] | None = None
) -> list[Line]:
    """Put the lines of an experiment's table together.

    Args:
        experiment: whose table it is.
        records: the folder of all records.
        sections: which parts of the table, `headline` for the short one; all if not given.

    Returns:
        For each row, a line of ours and, where the paper has one, a line of the paper's, in which
        ✓ and ✗ say whether ours is within the tolerance; at the end the paper's long chains, which
        are quoted and not rerun.
    """
    ensembles = _ensemble_seconds(experiment, records)
    columns = table_columns(experiment)
    lines = []
    rows = [
        row
        for row in experiment.rows
        if sections is None or row.section in sections or (row.headline and HEADLINE in sections)
    ]
    for index, row in enumerate(rows):
        pooled = _pooled(experiment, records, row)
        new_section = index > 0 and row.section != rows[index - 1].section
        lines.append(_our_line(experiment, row, pooled, ensembles, new_section))
        if row.paper:
            paper = find_row(experiment.name, **row.paper)
            if paper:
                lines.append(_paper_line(paper, PAPER, pooled, columns))
    rerun = [row.paper["epochs"] for row in experiment.rows if row.paper and "epochs" in row.paper]
    quoted = [row for row in gold_standards(experiment.name) if row.epochs not in rerun]
    for index, paper in enumerate(quoted):
        lines.append(_paper_line(paper, NOT_RERUN, None, columns, section=index == 0))
    return lines


def differences(experiment: Experiment, records: Path) -> list[str]:
    """Say where our numbers are outside the tolerance of the paper's, and why.

    Args:
        experiment: whose table it is.
        records: the folder of all records.

    Returns:
        A line for each row of which a cell is marked ✗, with the reason that the experiment gives.
    """
    lines = []
    for row in experiment.rows:
        paper = find_row(experiment.name, **row.paper) if row.paper else None
        pooled = _pooled(experiment, records, row)
        if paper is None or pooled is None:
            continue
        outside = [
            f"{column.heading} {number(pooled.values[column.metric], None, column)} "
            f"against {number(paper.values[column.metric], None, column)}"
            for column in table_columns(experiment)
            if agrees(paper, pooled, column) is False
        ]
        if outside:
            why = row.differs or "no reason is known"
            name = f"{row.label}, P = {row_islands(experiment, row)}"
            lines.append(f"{name}: {', '.join(outside)}. Why: {why}")
    return lines


def _pooled(experiment: Experiment, records: Path, row: Row) -> Pooled | None:
    completed = find_records(records, experiment, row)
    return pool(completed).weighted(row.weighting or "") if completed else None


def _ensemble_seconds(experiment: Experiment, records: Path) -> dict[tuple[int, float], float]:
    # What "× DE" divides by: the wall time of the deep ensemble of as many networks, same prior.
    seconds = {}
    for row in experiment.rows:
        if row.method == "de" and row.preset == "paper":
            completed = find_records(records, experiment, row)
            spent = pool(completed).cost["wall_seconds"] if completed else None
            if spent:
                seconds[_scale(experiment, row)] = spent
    return seconds


def _scale(experiment: Experiment, row: Row) -> tuple[int, float]:
    variance = row.overrides.get("prior_variance", experiment.settings["prior_variance"])
    return row_islands(experiment, row), float(variance)


def _our_line(
    experiment: Experiment,
    row: Row,
    pooled: Pooled | None,
    ensembles: dict[tuple[int, float], float],
    section: bool,
) -> Line:
    columns, scale = table_columns(experiment), _scale(experiment, row)
    islands = str(scale[0])
    if pooled is None:
        return Line((row.label, islands, *[MISSING] * (len(headings(columns)) - 2)), section)
    seconds, reference = pooled.cost["wall_seconds"], ensembles.get(scale)
    ratio = f"{seconds / reference:.2f}" if seconds and reference else MISSING
    spent = [count(pooled.cost[name]) for name in ("epochs", "total_epochs", "wall_seconds")]
    label = seeded_label(row.label, pooled)
    return Line((label, islands, *our_cells(pooled, columns), *spent, ratio), section)


def _paper_line(
    paper: PaperRow,
    label: str,
    pooled: Pooled | None,
    columns: Sequence[Column],
    section: bool = False,
) -> Line:
    islands = str(paper.islands) if paper.islands else MISSING
    spent = [count(paper.epochs), count(paper.total_epochs), MISSING, MISSING]
    return Line((label, islands, *paper_cells(paper, pooled, columns), *spent), section, quiet=True)


FOOTNOTE = (
    "Mean ± standard error over seeds 0–4. ✓ and ✗ beside the paper's number: ours is within or "
    "outside the tolerance (accuracy: the larger of 1 point and 3 joint standard errors; NLL "
    "and Brier score: 15 %; entropies: 50 %). epochs: per chain; total: of all chains and the "
    "anchor; seconds: wall time, the training of the anchor or the ensemble included; × DE: that, "
    f"over the time of the deep ensemble with the same P. {MISSING}: no record, or not measured."
)


def render(
    title: str, lines: Sequence[Line], columns: Sequence[Column] = COLUMNS
) -> RenderableType:
    """Turn lines into a table for the terminal.

    Args:
        title: the text above it.
        lines: from `build_table`.
        columns: those of the experiment.

    Returns:
        Something that a rich console prints.
    """
    return render_lines(title, headings(columns), lines)


def render_markdown(lines: Sequence[Line], columns: Sequence[Column] = COLUMNS) -> str:
    """Turn lines into a Markdown table, as the pages have it.

    Args:
        lines: from `build_table`.
        columns: those of the experiment.

    Returns:
        The table's text.
    """
    return markdown_lines(headings(columns), lines)


def write_tables(page: str, experiment: Experiment, records: Path) -> str:
    """Put an experiment's tables into a page, between the marks that name it.

    A mark is `<!-- table: NAME -->` or, for some sections only, `<!-- table: NAME paper best -->`;
    the end is `<!-- end: NAME -->`. The words `appendix` and `time`, and the names of the paper's
    tables, add those tables.

    Args:
        page: the text of a Markdown page.
        experiment: whose tables.
        records: the folder of all records.

    Returns:
        The page with its tables made anew.

    Raises:
        BadInput: if the page has no such mark.
    """
    make = partial(_page_text, experiment, records)
    return fill_marks(page, experiment.name, make, start="table", end="end")


def _page_text(experiment: Experiment, records: Path, words: Sequence[str]) -> str:
    more = [spec.paper for spec in appendix_specs(experiment.name)]
    sections = [word for word in words if word not in ("appendix", "time", *more)]
    parts = []
    if sections or not words:
        lines = build_table(experiment, records, sections or None)
        parts.append(render_markdown(lines, table_columns(experiment)))
    wanted = more if "appendix" in words else [name for name in more if name in words]
    blocks = build_appendix(experiment, records, wanted) if wanted else []
    if "time" in words:
        blocks.append(build_times(experiment, records))
    parts += [f"**{b.caption}**\n\n{markdown_lines(b.headings, b.lines)}" for b in blocks]
    return "\n\n".join(parts)
