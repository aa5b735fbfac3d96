"""All tables of docs/reviewers.md and docs/shortfalls.md by name, and pages with them made anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from sbmc.checks import require
from sbmc_studies.paper.tables.pages import fill_marks
from sbmc_studies.reviewers.gauntlet_tables import cost_table, proxy_table, size_table
from sbmc_studies.reviewers.missed import missed_claims, missed_figures, outside_tolerance
from sbmc_studies.reviewers.other_tables import settings_table, toy_table
from sbmc_studies.reviewers.questions import read_questions
from sbmc_studies.reviewers.record_tables import question_table

REVIEWERS = "reviewers"


def answer_tables() -> dict[str, Callable[[Path], str]]:
    """Every table by its name: from the folder of all records to Markdown."""
    return {
        **{name: partial(question_table, each) for name, each in read_questions().items()},
        "toy": toy_table,
        "size": size_table,
        "proxy": proxy_table,
        "settings": lambda records: settings_table(),
        "cost_gauntlet": cost_table,
        "missed_figures": missed_figures,
        "missed_claims": missed_claims,
        "outside_tolerance": outside_tolerance,
    }


def write_answers(page: str, records: Path) -> str:
    """Put the tables into a page, between its marks.

    Args:
        page: a page with marks `<!-- table: reviewers NAME -->` and `<!-- end: reviewers -->`.
        records: the folder of all records.

    Returns:
        The page with its tables made anew.

    Raises:
        BadInput: the page has no such mark, or a mark names no table.
    """
    tables = answer_tables()

    def make(words: Sequence[str]) -> str:
        name = " ".join(words)
        require(name in tables, "table", f"one of {', '.join(tables)}", name)
        return tables[name](records)

    return fill_marks(page, REVIEWERS, make, start="table", end="end")
