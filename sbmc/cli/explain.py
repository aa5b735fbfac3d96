"""`sbmc explain MODEL`: what runs how in one's own network, layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sbmc.cli.completion import LIKELIHOODS, PATHS, SELECTIONS, offer
from sbmc.cli.options import DebugOption, Text, read_count


def explain_command(
    model: Annotated[
        str,
        typer.Argument(
            help="FILE.py:NAME or package.module:NAME: a network, or a class or function that "
            "makes one without arguments."
        ),
    ],
    input_shape: Annotated[
        Text, typer.Option(help="Shape of one example, such as 1x28x28; numbers are made up.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="An .npz file with an array `inputs`, instead of a shape.")
    ] = None,
    tokens: Annotated[
        Text,
        typer.Option(
            metavar="INTEGER",
            help="With a shape: inputs are whole numbers below this, for an embedding.",
        ),
    ] = None,
    examples: Annotated[
        str, typer.Option(metavar="INTEGER", help="With a shape: examples of an epoch.")
    ] = "256",
    parameters: Annotated[
        str,
        typer.Option(
            help="What is sampled: all, last, or a pattern on parameter names.",
            autocompletion=offer(SELECTIONS),
        ),
    ] = "all",
    likelihood: Annotated[
        str, typer.Option(help="categorical or gaussian.", autocompletion=offer(LIKELIHOODS))
    ] = "categorical",
    particles: Annotated[
        str, typer.Option(metavar="INTEGER", help="How many are evaluated together.")
    ] = "10",
    path: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="auto, fused, vmap or loop.", autocompletion=offer(PATHS)
        ),
    ] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    debug: DebugOption = False,
) -> None:
    """Say how your network is evaluated for many particles, and what would make it faster."""
    from sbmc.cli.explaining import explain_own_model

    explain_own_model(
        model,
        data,
        input_shape,
        tokens=None if tokens is None else read_count("tokens", tokens),
        examples=read_count("examples", examples),
        parameters=parameters,
        likelihood=likelihood,
        particles=read_count("particles", particles),
        path=path,
        as_json=as_json,
    )
