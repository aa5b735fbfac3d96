"""What `sbmc export` does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sbmc.checks import BadInput
from sbmc.cli.opening import open_model, report_health, require_new_file


def run_export(
    file: Path,
    out: Path,
    options: Mapping[str, Any],
    *,
    model: str | None = None,
    quiet: bool = False,
    any_health: bool = False,
) -> int:
    """Write the file of a posterior or a distilled network as a graph, and print what was written.

    Args:
        file: of either.
        out: the graph's file.
        options: `interval` and `abstain` of `Posterior.export`.
        model: a reference to the network, if the file does not have it.
        quiet: whether to print nothing.
        any_health: whether the exit code is 0 whatever the health is.

    Returns:
        The exit code.

    Raises:
        BadInput: the file cannot be opened, `Posterior.export` refuses, or packages for ONNX
            are missing.
    """
    require_new_file(out)
    posterior = open_model(file, model)
    try:
        exported = posterior.export(out, **options)
    except ImportError as error:
        raise BadInput(f"`to` must be pt2 without the extra onnx, but got onnx. {error}") from error
    if not quiet:
        print(exported)
    return report_health(posterior, any_health=any_health)
