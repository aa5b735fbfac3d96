"""`sbmc run tables` and `sbmc table tables`: our estimators on tables of the UCI repository."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from sbmc.checks import require
from sbmc_studies.commands.completion import TABLES
from sbmc_studies.commands.options import parse_numbers, require_records
from sbmc_studies.paper.tables.pages import fill_marks
from sbmc_studies.tables.methods import METHODS
from sbmc_studies.tables.running import (
    QUICK_METHODS,
    QUICK_SETS,
    check_methods,
    run_split,
)
from sbmc_studies.tables.sets import find_sets, table_sets
from sbmc_studies.tables.table import table_lines


def run_tables(
    sets: str | None,
    splits: str | None,
    methods: str | None,
    settings: Mapping[str, str],
    out: Path,
    *,
    quick: bool,
    force: bool,
    data_dir: Path | None,
    quiet: bool,
) -> int:
    """Run methods on splits of sets; what is recorded is not run again.

    Args:
        sets: names of sets or groups with commas; all if not given.
        splits: such as 0-4; all splits of each set if not given. Numbers that a set does not have
            are left out for it.
        methods: names with commas; all if not given.
        settings: none; they are the estimators' own.
        out: the folder of all records.
        quick: three sets, one split and three methods, unless said otherwise.
        force: whether to run again what is recorded.
        data_dir: where to look first for data files.
        quiet: whether to print nothing.

    Returns:
        The exit code.
    """
    for name, value in settings.items():
        require(False, name, "left out for the study tables, whose settings are defaults", value)
    names = sets.split(",") if sets is not None else QUICK_SETS if quick else None
    chosen_sets = table_sets() if names is None else find_sets(names)
    usual = QUICK_METHODS if quick else tuple(METHODS)
    chosen = check_methods(usual if methods is None else methods.split(","))
    numbers = [0] if quick else None
    if splits is not None:
        numbers = list(parse_numbers("splits", splits))
    jobs = [
        (each, split)
        for each in chosen_sets
        for split in range(each.splits)
        if numbers is None or split in numbers
    ]
    rule = "numbers of splits that one of the sets has"
    require(bool(jobs), "splits", rule, splits)
    began = time.perf_counter()
    for number, (each, split) in enumerate(jobs, start=1):
        if not quiet:
            elapsed = time.perf_counter() - began
            print(f"{number} of {len(jobs)}: {each.name}, split {split} ({elapsed:.0f} s so far)")
        run_split(each, split, chosen, out, force=force, data_dir=data_dir)
    if not quiet:
        print(f"Records are in {out}. See: sbmc table tables --records {out}")
    return 0


def show_tables(records: Path) -> None:
    """Print the tables of the study."""
    require_records(records)
    print("\n".join(table_lines(records)))


def with_results(text: str, records: Path) -> str:
    """A page's text with the tables of the records between its marks.

    Raises:
        BadInput: there is no such folder, or the page has no marks.
    """
    require_records(records)
    tables = "\n".join(table_lines(records)).strip()
    return fill_marks(text, TABLES, lambda _: tables, start="table", end="end")
