"""`sbmc table`: ours beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sbmc.checks import require
from sbmc.cli.show import print_wide
from sbmc.studies.claims import CLAIMS, HEADLINE, SHORTFALLS, check_claim
from sbmc.studies.experiments import get_experiment
from sbmc.studies.table import (
    FOOTNOTE,
    build_table,
    differences,
    render,
    render_markdown,
    write_tables,
)

FORMATS = ("text", "markdown")


def write_table(experiment: str, records: Path, pages: Sequence[Path]) -> None:
    """Put an experiment's tables into Markdown pages, between their marks.

    Args:
        experiment: the experiment's name.
        records: the folder of all records.
        pages: the files.

    Raises:
        BadInput: if one of them is refused.
    """
    study = get_experiment(experiment)
    require(records.is_dir(), "records", "a folder of records", str(records))
    for page in pages:
        require(page.is_file(), "write", "an existing file", str(page))
        page.write_text(write_tables(page.read_text("utf-8"), study, records), "utf-8")
        print(f"{page}: tables of {experiment} written")


def show_table(experiment: str, records: Path, style: str) -> None:
    """Print an experiment's table and what the records say of the paper's claims.

    Args:
        experiment: the experiment's name.
        records: the folder of all records.
        style: `"text"` or `"markdown"`.

    Raises:
        BadInput: if one of them is refused.
    """
    study = get_experiment(experiment)
    require(style in FORMATS, "format", f"one of {', '.join(FORMATS)}", style)
    require(records.is_dir(), "records", "a folder of records", str(records))
    lines = build_table(study, records)
    if style == "markdown":
        print(render_markdown(lines))
        return
    print_wide(render(study.title, lines))
    print(FOOTNOTE)
    differing = differences(study, records)
    if differing:
        print("\nOutside the tolerance:")
        for line in differing:
            print(f"  {line}")
    if experiment == "mnist7":
        print("\nClaims, checked on these records:")
        for claim in (*CLAIMS, *HEADLINE):
            verdict = check_claim(claim, records)
            print(f"  {'✓' if verdict.holds else '✗'} {verdict.statement}: {verdict.evidence}")
            if not verdict.holds and claim.name in SHORTFALLS:
                print(f"    why: {SHORTFALLS[claim.name]}")
