"""The commands `table` and `figure` as the parser sees them, and `report` of folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sbmc.checks import require
from sbmc.cli.options import DebugOption, Text


def table_command(
    experiment: Annotated[
        str,
        typer.Argument(
            help="Whose table; see `sbmc experiments`. Or paper: all its tables and figures."
        ),
    ],
    records: Annotated[Path, typer.Option(help="Folder of the records.")] = Path(
        "experiments/records"
    ),
    style: Annotated[str, typer.Option("--format", help="text or markdown.")] = "text",
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
    from sbmc_studies.commands.table import (
        PAPER,
        show_confidence,
        show_index,
        show_table,
        write_index,
        write_table,
    )

    rule = "left out with paper, which lists its tables of confidence too"
    require(not (experiment == PAPER and confidence), "confidence", rule, confidence)
    if experiment == PAPER and write:
        write_index(records, write)
    elif experiment == PAPER:
        show_index(records, style)
    elif write:
        write_table(experiment, records, write, confidence=confidence)
    elif confidence:
        show_confidence(experiment, records, style)
    else:
        show_table(experiment, records, style)


def figure_command(
    experiment: Annotated[str, typer.Argument(help="Whose figure; see `sbmc experiments`.")],
    name: Annotated[
        str,
        typer.Argument(
            help="epochs: what a budget buys; or, of runs made with --confidence: roc, "
            "thresholds, confusion, risk-coverage, reliability, entropies, spider. The gauntlet "
            "has one figure: ranks of its methods."
        ),
    ] = "epochs",
    methods: Annotated[
        Text, typer.Option(help="Show these only, with commas.", show_default=False)
    ] = None,
    protocol: Annotated[
        Text, typer.Option(help="paper (default) or clean.", show_default=False)
    ] = None,
    records: Annotated[Path, typer.Option(help="Folder of the records.")] = Path(
        "experiments/records"
    ),
    out: Annotated[
        Path | None,
        typer.Option(help="The file: .png, .pdf or .svg; EXPERIMENT_NAME.png if not given."),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Draw one of an experiment's figures, from the stored records."""
    from sbmc_studies.commands.figure import draw_figure

    draw_figure(experiment, name, records, out=out, protocol=protocol, methods=methods)


def report_runs(
    runs: Sequence[Path], out: Path, *, title: Text, data_dir: Path | None, show: bool
) -> None:
    """Write the page of any runs, for `sbmc report` with folders; see `make_report`."""
    from sbmc_studies.commands.report import make_report

    make_report(runs, out, title=title, data_dir=data_dir, show=show)
