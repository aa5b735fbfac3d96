"""What a second buys: the table at matched wall times."""

from __future__ import annotations

from collections.abc import Sequence

from sbmc.report.given import Given
from sbmc.report.paper_tables.confidence import OURS
from sbmc.report.paper_tables.made import Made, our_cell
from sbmc.report.tables import Cell
from sbmc.studies.experiments import Experiment
from sbmc.studies.tables.lines import Column, whole
from sbmc.studies.tables.times import (
    COLUMNS,
    FORMS,
    SPENT,
    Bought,
    Timed,
    compare,
    spent_words,
    timed_rows,
)


def time_table(experiment: Experiment, given: Given) -> Made | None:
    """Fill the table of wall times, as `sbmc.studies.tables.times` does.

    Args:
        experiment: whose.
        given: the runs.

    Returns:
        A line for each row of the study's table with a wall time, by prior variance and then by
        time; None if there are not two to compare.
    """
    rows = timed_rows(experiment, given)
    if len(rows) < 2:
        return None
    columns = [c for c in COLUMNS if any(c.metric in row.pooled.values for row in rows)]
    lines = [(_line(row, compare(row, rows), columns),) for row in rows]
    headings = ("Setting", "P", *(column.heading for column in columns), *SPENT)
    return Made("what each buys with its wall time", OURS, headings, tuple(lines))


def _line(row: Timed, bought: Bought, columns: Sequence[Column]) -> list[object]:
    several = len(row.pooled.records) > 1
    values, errors = row.pooled.values, row.pooled.errors
    cells: list[object] = [
        our_cell(values.get(c.metric), errors.get(c.metric) if several else None, c)
        for c in columns
    ]
    cells.append(Cell(whole(row.seconds), row.seconds))
    for value, form in zip((bought.ratio, bought.gain, bought.rate), FORMS, strict=True):
        words = spent_words(value, form)
        cells.append(Cell(words) if value is None else Cell(words, value))
    return [row.label, Cell(row.islands, row.islands), *cells, bought.matched]
