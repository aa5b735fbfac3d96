"""`sbmc table`: our results beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from sbmc.checks import BadInput, require
from sbmc.cli.tables import print_wide
from sbmc_studies.commands.completion import FORMATS, GAUNTLET, MNIST, TABLES
from sbmc_studies.commands.gauntlet import show_gauntlet, with_tables
from sbmc_studies.commands.mnist import show_mnist, with_mnist
from sbmc_studies.commands.options import require_records
from sbmc_studies.commands.reviewers import show_answers
from sbmc_studies.commands.tables import show_tables, with_results
from sbmc_studies.experiments.experiment import Experiment, get_experiment
from sbmc_studies.paper.claims.all_studies import claim_lines, confidence_claim_lines
from sbmc_studies.paper.tables import appendix, groups, paper_index, times
from sbmc_studies.paper.tables import confidence as confidence_tables
from sbmc_studies.paper.tables.columns import NOTES, table_columns
from sbmc_studies.paper.tables.lines import Line, markdown_lines, render_lines
from sbmc_studies.paper.tables.specs import appendix_specs
from sbmc_studies.paper.tables.study import (
    FOOTNOTE,
    build_table,
    differences,
    render,
    render_markdown,
    write_tables,
)
from sbmc_studies.reviewers.page import REVIEWERS, write_answers
from sbmc_studies.runs.confidence import PROTOCOLS


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
    if experiment == GAUNTLET:
        _rewrite(pages, records, lambda text: with_tables(text, records), "tables of the gauntlet")
        return
    if experiment == REVIEWERS:
        _rewrite(pages, records, lambda text: write_answers(text, records), "answers")
        return
    if experiment == TABLES:
        _rewrite(pages, records, lambda text: with_results(text, records), "tables of UCI sets")
        return
    if experiment == MNIST:
        _rewrite(pages, records, lambda text: with_mnist(text, records), "tables of MNIST")
        return
    study = get_experiment(experiment)
    fill = confidence_tables.write_confidence if confidence else write_tables
    _rewrite(pages, records, lambda text: fill(text, study, records), f"tables of {experiment}")


def show_table(experiment: str, records: Path, style: str) -> None:
    """Print an experiment's tables, and which of the paper's claims hold on the records.

    The study's table comes first, then those of the paper's appendix, then what a second of wall
    time buys.

    Args:
        experiment: the experiment's name.
        records: the folder of all records.
        style: `"text"` or `"markdown"`.

    Raises:
        BadInput: if one of them is refused.
    """
    if experiment == GAUNTLET:
        show_gauntlet(records)
        return
    if experiment == TABLES:
        show_tables(records)
        return
    if experiment == REVIEWERS:
        show_answers(records)
        return
    if experiment == MNIST:
        show_mnist(records)
        return
    study = get_experiment(experiment)
    _check(records, style)
    lines, columns = build_table(study, records), table_columns(study)
    blocks = [*appendix.build_appendix(study, records), times.build_times(study, records)]
    if style == "markdown":
        print(render_markdown(lines, columns))
        for block in blocks:
            print(f"\n**{block.caption}**\n\n{markdown_lines(block.headings, block.lines)}")
        return
    print_wide(render(study.title, lines, columns))
    print(FOOTNOTE)
    if experiment in NOTES:
        print(NOTES[experiment])
    differing = differences(study, records)
    if differing:
        print("\nOutside the tolerance:")
        for line in differing:
            print(f"  {line}")
    for block in blocks:
        print()
        print_wide(render_lines(block.caption, block.headings, block.lines))
    for note in _notes(study):
        print(note)
    claims = claim_lines(experiment, records)
    if claims:
        print("\nClaims, checked on these records:")
        for line in claims:
            print(f"  {line}")


def _notes(study: Experiment) -> list[str]:
    specs = appendix_specs(study.name)
    notes = [appendix.FOOTNOTE] if specs else []
    notes += [groups.FOOTNOTE] if any(spec.by_group for spec in specs) else []
    return [*notes, times.FOOTNOTE]


def show_index(records: Path, style: str) -> None:
    """Print a line for every table and figure of the paper.

    Args:
        records: the folder of all records.
        style: `"text"` or `"markdown"`.

    Raises:
        BadInput: if one of them is refused.
    """
    _check(records, style)
    if style == "markdown":
        print(paper_index.index_markdown(records))
        return
    lines = paper_index.build_index(records)
    plain = [
        Line(tuple(cell.replace("<br>", "\n").replace("`", "") for cell in each.cells))
        for each in lines
    ]
    print_wide(render_lines("Tables and figures of the paper", paper_index.HEADINGS, plain))
    print(paper_index.FOOTNOTE)


def write_index(records: Path, pages: Sequence[Path]) -> None:
    """Put the list of the paper's tables and figures into Markdown pages, between its marks.

    Args:
        records: the folder of all records.
        pages: the files.

    Raises:
        BadInput: if one of them is refused.
    """
    content = "list of the paper's tables and figures"
    _rewrite(pages, records, lambda text: paper_index.write_index(text, records), content)


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
    _check(records, style)
    if style == "markdown":
        print(confidence_tables.markdown(study, records))
        return
    for protocol, kind in confidence_tables.chosen_tables():
        block = confidence_tables.build_confidence(study, records, protocol, kind)
        print_wide(render_lines(block.title, block.headings, block.lines))
    print(confidence_tables.FOOTNOTE)
    for protocol in PROTOCOLS:
        claims = confidence_claim_lines(experiment, records, protocol)
        if claims:
            print(f"\nClaims, checked on these records, {protocol} protocol:")
            for line in claims:
                print(f"  {line}")


def _check(records: Path, style: str = "text") -> None:
    require(style in FORMATS, "format", f"one of {', '.join(FORMATS)}", style)
    require_records(records)


def _rewrite(
    pages: Sequence[Path], records: Path, fill: Callable[[str], str], content: str
) -> None:
    """Fill the marks of Markdown pages, and say so."""
    _check(records)
    for page in pages:
        require(page.is_file(), "write", "an existing file", str(page))
        try:
            text = page.read_text("utf-8")
        except UnicodeDecodeError:
            rule = "a page of text in UTF-8"
            raise BadInput(f"`write` must be {rule}, but got {str(page)!r}.") from None
        page.write_text(fill(text), "utf-8")
        print(f"{page}: {content} written")
