"""`sbmc table`: ours beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sbmc.checks import require
from sbmc.cli.show import print_wide
from sbmc.studies import confidence_table
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


def write_table(
    experiment: str, records: Path, pages: Sequence[Path], *, confidence: bool = False
) -> None:
    """Put an experiment's tables into Markdown pages, between their marks.

    Args:
        experiment: the experiment's name.
        records: the folder of all records.
        pages: the files.
        confidence: those of the meta-classifier.

    Raises:
        BadInput: if one of them is refused.
    """
    study = get_experiment(experiment)
    require(records.is_dir(), "records", "a folder of records", str(records))
    written = confidence_table.write_confidence if confidence else write_tables
    for page in pages:
        require(page.is_file(), "write", "an existing file", str(page))
        page.write_text(written(page.read_text("utf-8"), study, records), "utf-8")
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


def show_confidence(experiment: str, records: Path, style: str) -> None:
    """Print the tables of the meta-classifier, in both protocols.

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
    if style == "markdown":
        print(confidence_table.markdown(study, records))
        return
    for protocol, kind in confidence_table.chosen_tables():
        lines = confidence_table.build_confidence(study, records, protocol, kind)
        title = confidence_table.table_title(protocol, kind)
        print_wide(confidence_table.render(title, lines, kind))
    print(confidence_table.FOOTNOTE)
    for protocol in confidence_table.PROTOCOLS:
        claims = confidence_table.claim_lines(study, records, protocol)
        if claims:
            print(f"\nClaims, checked on these records, {protocol} protocol:")
            for line in claims:
                print(f"  {line}")
