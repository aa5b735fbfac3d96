"""The commands `table` and `figure` as the parser sees them, and `report` of folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sbmc.checks import require
from sbmc.cli.completion import offer
from sbmc.cli.options import DebugOption, Text
from sbmc_studies.commands.completion import (
    FIGURES,
    FORMATS,
    GAUNTLET,
    MNIST,
    PAPER,
    PROTOCOLS,
    REVIEWERS,
    TABLES,
    complete_figures_of,
    complete_methods,
    complete_tables,
)
from sbmc_studies.commands.loading import load_work
from sbmc_studies.commands.options import RecordsOption, require_study
from sbmc_studies.records.stored import stored_records


def table_command(
    experiment: Annotated[
        str,
        typer.Argument(
            help="Whose table; see `sbmc experiments`. Or paper: all its tables and figures.",
            autocompletion=complete_tables,
        ),
    ],
    records: RecordsOption = None,
    style: Annotated[
        str, typer.Option("--format", help="text or markdown.", autocompletion=offer(FORMATS))
    ] = "text",
    write: Annotated[
        list[Path] | None,
        typer.Option(help="Put the table into this Markdown page, between its marks; repeatable."),
    ] = None,
    confidence: Annotated[
        bool,
        typer.Option("--confidence", help="The tables of the classifier that says abstain."),
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Set our results beside the paper's, from the stored records."""
    require_study(experiment, GAUNTLET, TABLES, REVIEWERS, MNIST, PAPER)  # before torch is imported
    work = load_work().table
    records = records or stored_records()
    rule = "left out with paper, which lists its tables of confidence too"
    require(not (experiment == PAPER and confidence), "confidence", rule, confidence)
    if experiment == PAPER and write:
        work.write_index(records, write)
    elif experiment == PAPER:
        work.show_index(records, style)
    elif write:
        work.write_table(experiment, records, write, confidence=confidence)
    elif confidence:
        work.show_confidence(experiment, records, style)
    else:
        work.show_table(experiment, records, style)


def figure_command(
    experiment: Annotated[
        str,
        typer.Argument(
            help="Whose figure; see `sbmc experiments`.", autocompletion=complete_figures_of
        ),
    ],
    name: Annotated[
        Text,
        typer.Argument(
            help="epochs: what a budget buys (of mnist7). sure-unsure: inputs that a run of yours "
            "is most and least sure about (of digits). Of runs made with --confidence: roc, "
            "thresholds, confusion, risk-coverage, reliability, entropies, spider. The gauntlet "
            "has one figure: ranks of its methods. If not given, the first that the study has.",
            autocompletion=offer(FIGURES),
            show_default=False,
        ),
    ] = None,
    methods: Annotated[
        Text,
        typer.Option(
            help="Show these only, with commas.",
            show_default=False,
            autocompletion=complete_methods,
        ),
    ] = None,
    protocol: Annotated[
        Text,
        typer.Option(
            help="paper (default) or clean.", show_default=False, autocompletion=offer(PROTOCOLS)
        ),
    ] = None,
    records: RecordsOption = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The file: .png, .pdf or .svg; EXPERIMENT_NAME.png if not given."),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Draw one of an experiment's figures, from the stored records."""
    require_study(experiment, GAUNTLET)
    draw = load_work().figure.draw_figure
    draw(experiment, name, records, out=out, protocol=protocol, methods=methods)


def report_runs(
    runs: Sequence[Path], out: Path, *, title: Text, data_dir: Path | None, show: bool
) -> None:
    """Write the page of any runs, for `sbmc report` with folders; see `make_report`."""
    load_work().report.make_report(runs, out, title=title, data_dir=data_dir, show=show)
