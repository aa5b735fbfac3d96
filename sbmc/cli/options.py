"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Text = str | None

DataDirOption = Annotated[
    Path | None, typer.Option(help="Where to look for data first; then $SBMC_DATA.")
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="No progress, only the results.")]
