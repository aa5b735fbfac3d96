"""Finds a saved run with the same islands, combined with the other island weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from sbmc_studies.experiments.run_spec import RunSpec
from sbmc_studies.records.record import Record, find_completed

POSTERIOR = "posterior.sbmc"
OTHER_WEIGHTS = {"equal": "evidence", "evidence": "equal"}


@dataclass(frozen=True)
class ReweightableRun:
    """A finished run that differs from the one asked for in `island_weights` alone.

    Attributes:
        records: of the run, and of its first islands, by their number.
        posterior: the file of its posterior.
    """

    records: dict[int, Record]
    posterior: Path


def find_reweightable(spec: RunSpec, out: Path) -> ReweightableRun | None:
    """Look for a saved run whose islands are those that a run would sample.

    Islands are weighted after all of them have ended. Their draws do not depend on the weights, so
    sampling them again would only repeat what is there.

    Args:
        spec: the run that is asked for.
        out: the folder of all records.

    Returns:
        The other run; None if there is none, or its posterior was not saved.
    """
    weights = spec.settings.get("island_weights")
    if weights not in OTHER_WEIGHTS:
        return None
    other = replace(spec, settings={**spec.settings, "island_weights": OTHER_WEIGHTS[weights]})
    records = {}
    for islands, prefix in other.with_prefixes().items():
        record = find_completed(prefix, out)
        if record is None:
            return None
        records[islands] = record
    posterior = other.folder(out) / POSTERIOR
    return ReweightableRun(records, posterior) if posterior.exists() else None
