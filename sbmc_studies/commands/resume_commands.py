"""The commands `resume`, `extend` and `merge`, as the parser sees them; see `resume`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sbmc.checks import BadInput
from sbmc.cli.options import DataDirOption, DebugOption, QuietOption, Text, with_option_groups
from sbmc_studies.commands.loading import load_work
from sbmc_studies.commands.options import (
    AlsoIslandsOption,
    ConfidenceOption,
    ExecutionOptions,
    SaveOption,
)


@with_option_groups
def resume_command(
    run: Annotated[
        Path, typer.Argument(help="Folder of a run, or one above several.", show_default=False)
    ],
    execution: ExecutionOptions,
    debug: DebugOption = False,
    quiet: QuietOption = False,
) -> int:
    """Continue a run that was stopped or killed, or all such runs below a folder."""
    return load_work().resume.resume(run, execution.read(), quiet=quiet, debug=debug)


@with_option_groups
def extend_command(
    run: Annotated[Path, typer.Argument(help="Folder of a run that has ended.")],
    *,
    islands: Annotated[
        Text, typer.Option(help="How many in all, or + how many more; e.g. 16 or +8.")
    ] = None,
    also_islands: AlsoIslandsOption = None,
    execution: ExecutionOptions,
    debug: DebugOption = False,
    quiet: QuietOption = False,
) -> int:
    """Add islands to a run that has ended, without touching the old ones."""
    if islands is None:
        raise BadInput("`islands` must be given, such as 16 or +8, but got nothing.")
    changes = execution.read()
    return load_work().resume.extend(
        run, islands, changes, also_islands=also_islands, quiet=quiet, debug=debug
    )


def merge_command(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs that were made apart.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder of records for the result.", show_default=False)
    ] = None,
    also_islands: AlsoIslandsOption = None,
    data_dir: DataDirOption = None,
    confidence: ConfidenceOption = False,
    save_posterior: SaveOption = False,
    debug: DebugOption = False,
    quiet: QuietOption = False,
) -> int:
    """Put the islands of several runs together as one; nothing is sampled."""
    if out is None:
        raise BadInput("`out` must be given: a folder for the result, but got nothing.")
    return load_work().resume.merge(
        runs,
        out,
        also_islands=also_islands,
        data_dir=data_dir,
        confidence=confidence,
        save_posterior=save_posterior,
        quiet=quiet,
        debug=debug,
    )
