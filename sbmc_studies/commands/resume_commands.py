"""The commands `resume`, `extend` and `merge`, as the parser sees them; see `resume`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sbmc.checks import BadInput
from sbmc.cli.options import DataDirOption, DebugOption, QuietOption, Text
from sbmc_studies.commands.options import (
    AddressOption,
    AlsoIslandsOption,
    ChunkOption,
    ConfidenceOption,
    CpusOption,
    EveryOption,
    ExecutorOption,
    GpusOption,
    MemoryOption,
    SaveOption,
    WorkersOption,
    parse_changes,
)


def resume_command(
    run: Annotated[
        Path, typer.Argument(help="Folder of a run, or one above several.", show_default=False)
    ],
    executor: ExecutorOption = None,
    workers: WorkersOption = None,
    address: AddressOption = None,
    cpus: CpusOption = None,
    gpus: GpusOption = None,
    checkpoint_every: EveryOption = None,
    memory_limit: MemoryOption = None,
    chunk_size: ChunkOption = None,
    debug: DebugOption = False,
    quiet: QuietOption = False,
) -> int:
    """Go on with a run that was stopped or killed, or with all such runs below a folder."""
    from sbmc_studies.commands.resume import resume

    changes = parse_changes(
        executor=executor,
        workers=workers,
        address=address,
        cpus=cpus,
        gpus=gpus,
        checkpoint_every=checkpoint_every,
        memory_limit=memory_limit,
        chunk_size=chunk_size,
    )
    return resume(run, changes, quiet=quiet, debug=debug)


def extend_command(
    run: Annotated[Path, typer.Argument(help="Folder of a run that has ended.")],
    islands: Annotated[
        Text, typer.Option(help="How many in all, or + how many more; e.g. 16 or +8.")
    ] = None,
    also_islands: AlsoIslandsOption = None,
    executor: ExecutorOption = None,
    workers: WorkersOption = None,
    address: AddressOption = None,
    cpus: CpusOption = None,
    gpus: GpusOption = None,
    checkpoint_every: EveryOption = None,
    memory_limit: MemoryOption = None,
    chunk_size: ChunkOption = None,
    debug: DebugOption = False,
    quiet: QuietOption = False,
) -> int:
    """Add islands to a run that has ended, without touching the old ones."""
    from sbmc_studies.commands.resume import extend

    if islands is None:
        raise BadInput("`islands` must be given, such as 16 or +8, but got nothing.")
    changes = parse_changes(
        executor=executor,
        workers=workers,
        address=address,
        cpus=cpus,
        gpus=gpus,
        checkpoint_every=checkpoint_every,
        memory_limit=memory_limit,
        chunk_size=chunk_size,
    )
    return extend(run, islands, changes, also_islands=also_islands, quiet=quiet, debug=debug)


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
    from sbmc_studies.commands.resume import merge

    if out is None:
        raise BadInput("`out` must be given: a folder for the result, but got nothing.")
    return merge(
        runs,
        out,
        also_islands=also_islands,
        data_dir=data_dir,
        confidence=confidence,
        save_posterior=save_posterior,
        quiet=quiet,
        debug=debug,
    )
