"""The work of `sbmc drift`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from sbmc.cli.opening import DataOptions, open_posterior, read_rows, report_health


def run_drift(
    file: Path,
    data: Path,
    *,
    level: float = 0.05,
    model: str | None = None,
    options: DataOptions | None = None,
    as_json: bool = False,
    quiet: bool = False,
    any_health: bool = False,
) -> int:
    """Compare rows with the reference in a posterior's file.

    Args:
        file: the posterior.
        data: the rows; targets are ignored.
        level: the largest probability of a false alarm.
        model: a reference to the network, if the file needs one.
        options: what the user says about the data.
        as_json: whether to print JSON instead of words.
        quiet: no progress.
        any_health: whether the exit code is 0 also if the posterior is not healthy.

    Returns:
        The exit code; drift does not change it.

    Raises:
        BadInput: an argument breaks its rule, or the file has no reference.
    """
    posterior = open_posterior(file, model)
    rows = read_rows(posterior.recipe, data, options, target_use="ignored")
    drift = posterior.drift(rows.inputs, level=level, progress=False if quiet else None)
    if as_json:
        summary = {
            "drifted": drift.drifted,
            "p_value": drift.p_value,
            "p_inputs": drift.p_inputs,
            "p_uncertainties": drift.p_uncertainties,
            "explanation": drift.explain(),
        }
        print(json.dumps(summary | dataclasses.asdict(drift), indent=2, ensure_ascii=False))
    else:
        print(f"{rows.source}: {drift.explain()}")
    return report_health(posterior, any_health=any_health)
