"""What `sbmc card` does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sbmc.checks import require, require_path
from sbmc.cli.opening import DataOptions, open_model, read_rows, report_health
from sbmc.report.pretrained.facts import FILES
from sbmc.report.pretrained.folder import CARD, CONFIG, class_of


def run_card(
    file: Path,
    out: Path,
    options: Mapping[str, Any],
    *,
    data: Path | None = None,
    data_options: DataOptions | None = None,
    model: str | None = None,
    quiet: bool = False,
    any_health: bool = False,
) -> int:
    """Write a folder with a posterior or a distilled network and its card; print where it is.

    Args:
        file: of either.
        out: the folder.
        options: further arguments of `Posterior.save_pretrained`.
        data: rows with targets to measure it on; None for none.
        data_options: what the user says about the data.
        model: a reference to the network, if the file does not have it.
        quiet: whether to print nothing.
        any_health: whether the exit code is 0 whatever the health is.

    Returns:
        The exit code.

    Raises:
        BadInput: the file or the data cannot be opened, or `Posterior.save_pretrained` refuses.
    """
    path = require_path("out", out)
    require(not path.is_file(), "out", "a folder, not a file", str(out))
    posterior = open_model(file, model)
    evaluation: dict[str, Any] = {}
    if data is not None:
        rows = read_rows(
            getattr(posterior, "recipe", None), data, data_options, target_use="required"
        )
        evaluation = {"evaluate": rows.with_targets(), "evaluated_on": rows.source}
    folder = posterior.save_pretrained(path, **options, **evaluation)
    if not quiet:
        measured = "with metrics" if evaluation else "without metrics; --data measures some"
        weights = FILES[class_of(type(posterior))]
        print(f"{folder}: {weights}, {CONFIG} and {CARD}, {measured}")
    return report_health(posterior, any_health=any_health)
