"""Styles of methods, alike in all pictures of an experiment: a colour for each, a stroke for P."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sbmc.checks import require
from sbmc.report.charts.style import COLOURS, STROKES, Style
from sbmc_studies.experiments.experiment import Experiment
from sbmc_studies.paper.tables.confidence import confidence_rows


class StyledRow(NamedTuple):
    """What decides about the style of a row."""

    label: str
    method: str
    islands: int


def method_styles(experiment: Experiment, rows: Sequence[StyledRow]) -> list[Style]:
    """Give each row its style.

    Args:
        experiment: whose pictures.
        rows: those of one method share a colour, which is the same in every picture whichever
            others are shown. The largest P is solid and others are dashed. A second row with the
            same P comes after those.

    Returns:
        A style for each row.

    Raises:
        BadInput: if there are more methods than colours that everyone can tell apart.
    """
    methods = list(dict.fromkeys(row.method for row in confidence_rows(experiment)))
    if len(methods) > COLOURS:
        methods = list(dict.fromkeys(row.method for row in rows))
    require(len(methods) <= COLOURS, "methods", f"at most {COLOURS} methods", methods)
    styles = []
    for row in rows:
        number = methods.index(row.method)
        stroke = min(_by_islands(rows, row.method).index(row), len(STROKES) - 1)
        styles.append(Style(row.label, number, stroke, number))
    return styles


def _by_islands(rows: Sequence[StyledRow], method: str) -> list[StyledRow]:
    """The rows of a method in the order of their strokes."""
    alike = [row for row in rows if row.method == method]
    first = {row.islands: row for row in reversed(alike)}
    return sorted(alike, key=lambda row: (first[row.islands] is not row, -row.islands))
