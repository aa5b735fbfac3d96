"""`sbmc serve`, as the parser sees it; what it does is in `running`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from sbmc.checks import BadInput
from sbmc.cli.help import OWN_NETWORKS, add_command
from sbmc.cli.options import DebugOption, QuietOption, Text, read_count, read_number
from sbmc_serve.limits import require_seconds

PACKAGES = ("starlette", "uvicorn")
MOST_PORT = 65_535


def register(app: Any) -> None:
    """Add the command; the entry-point group `sbmc.commands` names this function.

    Args:
        app: the application, a `typer.Typer`.
    """
    examples = [
        "sbmc serve my.sbmc",
        "sbmc serve narrow.sbmc wide.sbmc --port 9000 --max-rows 100",
        "sbmc serve --digits                         # a page to draw digits on",
    ]
    add_command(app, "serve", serve_command, examples=examples, panel=OWN_NETWORKS)


def serve_command(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Posteriors, of `sbmc fit`. Several are chosen from by the names of their files; "
            "the first is the default."
        ),
    ] = None,
    *,
    digits: Annotated[
        bool,
        typer.Option("--digits", help="Serve posteriors of the embedded digits, at several s."),
    ] = False,
    model: Annotated[
        Text,
        typer.Option(help="The network, FILE.py:NAME, if its code has moved or changed."),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="To listen at; by default this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[
        str, typer.Option(metavar="NUMBER", help="To listen at; 0 for any that is free.")
    ] = "8765",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A further name that requests may call the server by, such as that of a proxy.",
        ),
    ] = None,
    abstain_above: Annotated[
        Text,
        typer.Option(metavar="NUMBER", help="Abstain above this, as `sbmc predict` does."),
    ] = None,
    max_rows: Annotated[str, typer.Option(metavar="NUMBER", help="Rows of a request.")] = "1000",
    max_bytes: Annotated[
        str, typer.Option(metavar="NUMBER", help="Bytes of the body of a request.")
    ] = "4000000",
    timeout: Annotated[
        str, typer.Option(metavar="SECONDS", help="In which a request is answered.")
    ] = "10",
    queue: Annotated[
        str, typer.Option(metavar="NUMBER", help="Requests that wait; further ones are refused.")
    ] = "256",
    batch_rows: Annotated[
        str, typer.Option(metavar="NUMBER", help="Rows that are predicted together.")
    ] = "256",
    debug: DebugOption = False,
    quiet: QuietOption = False,
) -> int:
    """Answer over HTTP, with uncertainty, and show a page to play with."""
    seconds = read_number("timeout", timeout)
    require_seconds("timeout", seconds)
    values = {
        "rows": read_count("max_rows", max_rows),
        "bytes": read_count("max_bytes", max_bytes),
        "seconds": seconds,
        "queue": read_count("queue", queue),
        "batch_rows": read_count("batch_rows", batch_rows),
    }
    work = load_work()
    return work.run_serve(
        files or [],
        digits=digits,
        model=model,
        host=host,
        port=read_count("port", port, least=0, most=MOST_PORT),
        allow_hosts=allow_host or [],
        limits=work.Limits(**values),
        abstain_above=None
        if abstain_above is None
        else read_number("abstain_above", abstain_above),
        quiet=quiet,
    )


def load_work() -> Any:
    """The module with the work of the command, which takes a while to import.

    Raises:
        BadInput: packages are missing.
    """
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise BadInput(
            f"`serve` must be called where {' and '.join(PACKAGES)} are installed, but got none of "
            f"{', '.join(missing)}: pip install 'sbmc[serve]'."
        )
    from sbmc_serve import running

    return running
