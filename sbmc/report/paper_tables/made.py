"""A finished table, and what the paper calls it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from sbmc.report.tables import Cell
from sbmc.studies.tables.lines import Column, number
from sbmc.studies.tables.paper_index import read_index


@dataclass(frozen=True)
class Made:
    """A table on its way into the page.

    Attributes:
        title: what it shows.
        label: what the paper calls it, or words for a table that is not in it.
        headings: of its columns.
        groups: of rows that stay together: ours, and the paper's below it.
    """

    title: str
    label: str
    headings: tuple[str, ...]
    groups: tuple[tuple[Sequence[object], ...], ...]


def our_cell(value: float | None, error: float | None, column: Column) -> Cell:
    """A number: the text of `sbmc table`, and enough digits to sort it by."""
    return Cell(number(value, error, column), None if value is None else float(f"{value:.8g}"))


@cache
def paper_label(table: str) -> str:
    """What the paper calls one of its tables.

    Args:
        table: its name as data.

    Returns:
        Its number or its LaTeX label; that name if the list of the paper's tables lacks it.

    Example:
        >>> paper_label("mnist7_s_ablation"), paper_label("mnist7_main")
        ('tab:metric_diffs_mnist', 'Table 1')
    """
    labels: dict[str, None] = {}
    for entry in read_index():
        if table in (entry.table, entry.confidence):
            names = re.split(r"[;,]", entry.name.split(" (")[0])
            labels |= {name.strip(): None for name in names if name.strip()[:3].lower() == "tab"}
    return ", ".join(labels) or table
