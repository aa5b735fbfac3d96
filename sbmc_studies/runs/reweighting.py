"""Finds the run that has the same islands, combined in the other way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sbmc_studies.experiments.settings import Settings
from sbmc_studies.records.record import Record, find_completed, record_path

POSTERIOR = "posterior.sbmc"
OTHER = {"equal": "evidence", "evidence": "equal"}


@dataclass(frozen=True)
class Twin:
    """A finished run that differs in `island_weights` alone, so that its islands are ours.

    Attributes:
        records: of the run, and of its first islands, by their number.
        posterior: where its ensemble is saved.
    """

    records: dict[int, Record]
    posterior: Path


def find_twin(
    out: Path, experiment: str, method: str, wanted: Mapping[int, Settings], seed: int
) -> Twin | None:
    """Look for a run that drew the same islands.

    Weights are made when all islands have ended and touch no draw, so sampling again would only
    repeat what is there.

    Args:
        out: the folder of all records.
        experiment: the experiment's name.
        method: the method's name.
        wanted: settings by number of islands; the largest number is the run itself.
        seed: of the run.

    Returns:
        The other run; None if there is none, or its posterior was not saved.
    """
    weights = next(iter(wanted.values())).get("island_weights")
    if weights not in OTHER:
        return None
    records = {}
    for islands, settings in wanted.items():
        other = {**settings, "island_weights": OTHER[weights]}
        record = find_completed(out, experiment, method, other, seed)
        if record is None:
            return None
        records[islands] = record
    whole = records[max(records)]
    saved = record_path(out, experiment, method, whole.hash, seed).parent / POSTERIOR
    return Twin(records, saved) if saved.exists() else None
