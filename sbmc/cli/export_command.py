"""`sbmc export`: a posterior's file as one graph that other runtimes open."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sbmc.checks import require, require_choice
from sbmc.cli.options import DebugOption, QuietOption, Text, read_number
from sbmc.cli.posterior_commands import PosteriorArgument, load_work

SUFFIXES = {"onnx": ".onnx", "pt2": ".pt2"}


def export_command(
    file: PosteriorArgument,
    *,
    to: Annotated[
        Text,
        typer.Option(
            metavar="FORMAT",
            help="onnx, or pt2 for torch.export; by the name of --out if left out.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write; named after the posterior if left out."),
    ] = None,
    model: Annotated[
        Text,
        typer.Option(help="The network, FILE.py:NAME, if its code has moved or changed."),
    ] = None,
    level: Annotated[
        str,
        typer.Option(metavar="NUMBER", help="Of the intervals of numbers, in (0, 1); or none."),
    ] = "0.9",
    abstain: Annotated[
        Text,
        typer.Option(
            metavar="QUANTITY:NUMBER",
            help="Flag rows with at least this much of a quantity: error (of classes), deviation "
            "or width (of numbers), total, aleatoric, epistemic.",
        ),
    ] = None,
    any_health: Annotated[
        bool,
        typer.Option("--any-health", help="Exit with 0, not 3, if the posterior is not healthy."),
    ] = False,
    debug: DebugOption = False,
    quiet: QuietOption = False,
) -> int:
    """Write a posterior as one graph, from inputs to answers, that runs without sbmc."""
    path = output_path(file, to, out)
    options: dict[str, Any] = {
        "interval": None if level.strip().lower() == "none" else read_number("level", level),
        "abstain": None if abstain is None else read_abstention(abstain),
    }
    return load_work().run_export(
        file, path, options, model=model, quiet=quiet, any_health=any_health
    )


def output_path(file: Path, to: str | None, out: Path | None) -> Path:
    """The file to write.

    Args:
        file: the posterior's.
        to: the format, or None to take it from `out`.
        out: what the user called it, or None.

    Raises:
        BadInput: an unknown format, or two that differ.

    Examples:
        >>> output_path(Path("my.sbmc"), "onnx", None).name
        'my.onnx'
    """
    if to is not None:
        require_choice("to", to, SUFFIXES)
    if out is None:
        return file.with_suffix(SUFFIXES[to or "onnx"]) if file.name else file
    same = to is None or out.suffix == SUFFIXES[to]
    require(same, "out", f"a file whose name ends in .{to}, as --to says", str(out))
    return out


def read_abstention(text: str) -> tuple[str, float] | str:
    """Read when to abstain.

    Raises:
        BadInput: there is no number.

    Examples:
        >>> read_abstention("epistemic:0.2"), read_abstention("confidence")
        (('epistemic', 0.2), 'confidence')
    """
    if text == "confidence":
        return text
    quantity, colon, number = text.partition(":")
    rule = "a quantity and a number with a colon between them, such as epistemic:0.2"
    require(bool(colon), "abstain", rule, text)
    return quantity, read_number("abstain", number)
