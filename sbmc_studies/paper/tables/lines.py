"""Lines of tables: numbers with their errors, marks beside the paper's, and how they print."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sbmc.report.numbers import MISSING
from sbmc_studies.paper.numbers import PaperRow
from sbmc_studies.records.pooling import SEEDS, Pooled

if TYPE_CHECKING:
    from rich.console import RenderableType

PAPER = "  paper"  # the label of its line below ours
# Paper: the ECE of IMDb is of another definition, that of CIFAR-10 within the noise of its bins.
NOT_COMPARED = ("ece",)


class Column(NamedTuple):
    """A column of numbers.

    Attributes:
        metric: its name in a record.
        heading: the text above it.
        digits: after the point. Accuracy is shown in percent.
    """

    metric: str
    heading: str
    digits: int


class Entry(str):
    """The text of a cell, with the number that it shows.

    Args:
        text: what is read.
        value: the number; None for words, or where there is none.
        good: of the paper's numbers: whether ours is within the tolerance, if it is compared.
    """

    value: float | None
    good: bool | None

    def __new__(cls, text: str, value: float | None = None, good: bool | None = None) -> Entry:
        """As a string is made: it cannot be changed later."""
        entry = super().__new__(cls, text)
        entry.value, entry.good = value, good
        return entry


@dataclass(frozen=True)
class Line:
    """One line of a finished table: cells in the order of the headings.

    Attributes:
        cells: texts, and an `Entry` where there is a number behind one.
        section: whether a new part of the table begins.
        quiet: whether it is the paper's, below ours.
    """

    cells: tuple[str, ...]
    section: bool = False
    quiet: bool = False


def within_tolerance(
    metric: str, ours: float, paper: float, our_error: float = 0.0, paper_error: float = 0.0
) -> bool:
    """Say whether our value agrees with the paper's.

    Accuracy: within the larger of one point and three joint standard errors. NLL and Brier score:
    within 15 %. Entropies: within 50 %, the paper's own tolerance.

    Args:
        metric: the metric's name in a record.
        ours: our value.
        paper: the paper's.
        our_error: our standard error.
        paper_error: the paper's.

    Returns:
        Whether it is within the tolerance; a paper's value of 0 must be met to three digits.

    Examples:
        >>> within_tolerance("accuracy", 0.915, 0.923), within_tolerance("nll", 0.30, 0.25)
        (True, False)
    """
    difference = abs(ours - paper)
    if metric == "accuracy":
        joint = math.hypot(our_error, paper_error)
        # The margin is for rounding: 92.3 % and 93.3 % are one point apart.
        return difference <= max(0.01, 3 * joint) + 1e-9
    if paper == 0:
        return difference < 5e-4
    return difference <= (0.15 if metric in ("nll", "brier") else 0.5) * abs(paper) + 1e-12


def number(value: float | None, error: float | None, column: Column) -> Entry:
    """A number with its error, as a cell.

    Args:
        value: None if there is none.
        error: None if it means nothing.
        column: the column that it is in.

    Returns:
        The text, and the number.

    Examples:
        >>> number(0.9312, 0.0004, Column("accuracy", "accuracy %", 1))
        '93.1±0.04'
    """
    if value is None:
        return Entry(MISSING)
    unit = 100 if column.metric == "accuracy" else 1
    text = f"{value * unit:.{column.digits}f}"
    # An error of 0.04 points would vanish among the digits of the value.
    if error is not None:
        text += f"±{error * unit:.{max(column.digits, 2)}f}"
    return Entry(text, value)


def count(value: float | None) -> Entry:
    """A number without decimals, as a cell."""
    return plain(value, ",.0f")


def plain(value: float | None, form: str = "g") -> Entry:
    """A number without an error, as a cell.

    Args:
        value: None if there is none.
        form: how it is written.

    Returns:
        The text, and the number.

    Examples:
        >>> plain(20_000, ",g"), plain(None)
        ('20,000', '–')
    """
    if value is None or not math.isfinite(value):
        return Entry(MISSING)
    return Entry(f"{value:{form}}", value)


def our_cells(pooled: Pooled, columns: Sequence[Column]) -> list[Entry]:
    """Our numbers, with errors over the seeds; a single seed has no error."""
    several = len(pooled.records) > 1
    return [
        number(
            pooled.values.get(column.metric),
            pooled.errors.get(column.metric) if several else None,
            column,
        )
        for column in columns
    ]


def paper_cells(paper: PaperRow, pooled: Pooled | None, columns: Sequence[Column]) -> list[Entry]:
    """The paper's numbers, each with ✓ or ✗ if we have a number to compare it with."""
    cells = []
    for column in columns:
        theirs, error = paper.values.get(column.metric), paper.errors.get(column.metric)
        good = agrees(paper, pooled, column)
        mark = "" if good is None else " ✓" if good else " ✗"
        cells.append(Entry(number(theirs, error, column) + mark, theirs, good))
    return cells


def agrees(paper: PaperRow, pooled: Pooled | None, column: Column) -> bool | None:
    """Whether ours is within the tolerance; None where there is nothing to compare."""
    metric = column.metric
    if metric in NOT_COMPARED or pooled is None:
        return None
    if metric not in paper.values or metric not in pooled.values:
        return None
    return within_tolerance(
        metric,
        pooled.values[metric],
        paper.values[metric],
        pooled.errors[metric],
        paper.errors.get(metric, 0.0),
    )


def seeded_label(label: str, pooled: Pooled) -> str:
    """A row's name, which says so if seeds are missing."""
    seeds = len(pooled.records)
    return label if seeds == len(SEEDS) else f"{label} ({seeds} of {len(SEEDS)} seeds)"


def render_lines(title: str, headings: Sequence[str], lines: Sequence[Line]) -> RenderableType:
    """Turn lines into a table for the terminal.

    Args:
        title: the text above it.
        headings: of its columns.
        lines: its rows.

    Returns:
        Something that a rich console prints.
    """
    from rich.table import Table

    table = Table(title=title, title_justify="left", header_style="bold", pad_edge=False)
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="left" if index == 0 else "right", no_wrap=index > 0)
    for line in lines:
        if line.section:
            table.add_section()
        table.add_row(*line.cells, style="dim" if line.quiet else None)
    return table


def markdown_lines(
    headings: Sequence[str], lines: Sequence[Line], text_columns: Sequence[int] = (0,)
) -> str:
    """Turn lines into a Markdown table, the paper's in italics.

    Args:
        headings: of its columns.
        lines: its rows.
        text_columns: columns of words; the others have numbers, and are aligned at the right.

    Returns:
        The table's text.
    """
    marks = ["---" if column in text_columns else "---:" for column in range(len(headings))]
    rows = [list(headings), marks]
    rows += [[f"*{c.strip()}*" if line.quiet else c for c in line.cells] for line in lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
