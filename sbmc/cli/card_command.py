"""`sbmc card`: a posterior's file as a folder with a model card, for the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sbmc.cli.options import DebugOption, QuietOption, Text, read_number
from sbmc.cli.posterior_commands import PosteriorArgument, load_work


def card_command(
    file: PosteriorArgument,
    *,
    out: Annotated[Path, typer.Option(help="The folder to write; made if it is missing.")],
    data: Annotated[
        Path | None,
        typer.Option(help="Rows with targets to measure it on; no metrics if left out."),
    ] = None,
    name: Annotated[
        Text, typer.Option(help="Title of the card; the folder's name if left out.")
    ] = None,
    license: Annotated[
        Text, typer.Option(help="As the Hub spells it, such as mit or cc-by-4.0.")
    ] = None,
    description: Annotated[Text, typer.Option(help="A few sentences of your own.")] = None,
    model: Annotated[
        Text,
        typer.Option(help="The network, FILE.py:NAME, if its code has moved or changed."),
    ] = None,
    level: Annotated[
        str, typer.Option(metavar="NUMBER", help="Of the intervals of numbers, in (0, 1).")
    ] = "0.9",
    inputs: Annotated[Text, typer.Option(help="Of an .npz file: the array of inputs.")] = None,
    targets: Annotated[Text, typer.Option(help="Of an .npz file: the array of targets.")] = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace files that sbmc did not write, and edited cards."
        ),
    ] = False,
    any_health: Annotated[
        bool,
        typer.Option("--any-health", help="Exit with 0, not 3, if the posterior is not healthy."),
    ] = False,
    debug: DebugOption = False,
    quiet: QuietOption = False,
) -> int:
    """Write a folder for the Hugging Face Hub: the posterior, its description and a model card."""
    work = load_work()
    options: dict[str, Any] = {
        "name": name,
        "license": license,
        "description": description or "",
        "level": read_number("level", level),
        "overwrite": overwrite,
    }
    return work.run_card(
        file,
        out,
        options,
        data=data,
        data_options=work.DataOptions(inputs, targets),
        model=model,
        quiet=quiet,
        any_health=any_health,
    )
