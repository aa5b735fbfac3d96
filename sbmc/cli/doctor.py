"""`sbmc doctor`: what this machine has, as text that can be pasted into an issue."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from sbmc.cli.options import DebugOption


def doctor_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    debug: DebugOption = False,
) -> None:
    """Say what this machine has: versions, compiled code, threads, memory, data, extras.

    Exit code 1 says that compiled code should run and does not; all works, but more slowly.
    """
    from sbmc.cli.machine import examine

    sections, fault = examine()
    if as_json:
        typer.echo(json.dumps(sections, indent=2))
        raise typer.Exit(1 if fault else 0)
    for heading, lines in sections.items():
        typer.echo(heading)
        width = max(map(len, lines))
        for name, line in lines.items():
            typer.echo(f"  {name:{width}}  {line}")
    if fault:
        typer.echo(f"\nNo compiled kernel runs: {fault}. Everything works, but more slowly.")
        raise typer.Exit(1)
