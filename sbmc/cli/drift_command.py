"""`sbmc drift`: whether new rows are like those that a posterior was fitted to."""

from __future__ import annotations

from typing import Annotated

import typer

from sbmc.cli.options import DebugOption, QuietOption, Text, read_number
from sbmc.cli.posterior_commands import DataOption, PosteriorArgument, load_work


def drift_command(
    file: PosteriorArgument,
    *,
    data: DataOption,
    level: Annotated[
        str,
        typer.Option(metavar="NUMBER", help="The largest probability of a false alarm, in (0, 1)."),
    ] = "0.05",
    model: Annotated[
        Text,
        typer.Option(help="The network, FILE.py:NAME, if its code has moved or changed."),
    ] = None,
    inputs: Annotated[Text, typer.Option(help="Of an .npz file: the array of inputs.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")] = False,
    any_health: Annotated[
        bool,
        typer.Option("--any-health", help="Exit with 0, not 3, if the posterior is not healthy."),
    ] = False,
    debug: DebugOption = False,
    quiet: QuietOption = False,
) -> int:
    """Say whether new rows are like those of training, and predictions as sure as there."""
    work = load_work()
    return work.run_drift(
        file,
        data,
        level=read_number("level", level),
        model=model,
        options=work.DataOptions(inputs, None),
        as_json=as_json,
        quiet=quiet,
        any_health=any_health,
    )
