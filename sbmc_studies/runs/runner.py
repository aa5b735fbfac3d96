"""Runs a `RunSpec` and writes its record."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sbmc.checks import BadInput
from sbmc.islands.checkpoints import CheckpointError
from sbmc.log import logger
from sbmc.posterior.saving import load
from sbmc.storage.provenance import software_versions
from sbmc_studies.experiments.context import Context, prepare_context
from sbmc_studies.experiments.methods import Outcome, get_method
from sbmc_studies.experiments.resources import Resources
from sbmc_studies.experiments.run_spec import RunSpec
from sbmc_studies.records.record import RECORD, Record, find_completed, write_record
from sbmc_studies.runs.confidence import has_confidence, with_confidence
from sbmc_studies.runs.examples import write_examples
from sbmc_studies.runs.extremes import write_extremes
from sbmc_studies.runs.measuring import (
    all_metrics,
    describe_data,
    failed_record,
    first_islands,
    measure,
)
from sbmc_studies.runs.reweighting import POSTERIOR, find_reweightable
from sbmc_studies.runs.run_file import RunFile, open_run, remove_checkpoint

if TYPE_CHECKING:
    from sbmc.posterior.posterior import Posterior

# Completed records by number of islands; None where there is none.
Stored = dict[int, Record | None]


@dataclass(frozen=True)
class Run:
    """What `run` hands back: the record of the run, and those of its first islands.

    Attributes:
        record: of all islands.
        path: the file of that record.
        prefixes: records of the first islands, by their number.
        reused: whether the run had been made before, so that nothing was computed.
    """

    record: Record
    path: Path
    prefixes: dict[int, Record]
    reused: bool


def run(
    spec: RunSpec,
    out: Path,
    resources: Resources | None = None,
    *,
    force: bool = False,
    debug: bool = False,
) -> Run:
    """Run a method with one seed and write its record; reuse the record if it is there.

    A run that was stopped continues from its checkpoint. A run that fails writes a record too, with
    the outcome `failed` and the reason.

    Args:
        spec: what to run. If it asks for the meta-classifier and the record has none, the record is
            completed from the saved posterior, or else the run is made again.
        out: the folder of all records.
        resources: shared with other runs of this process.
        force: run from the beginning, training included, even if a completed record is there.
        debug: let an unexpected error through, after its record is written.

    Returns:
        The record, new or old.

    Raises:
        BadInput: if the data are missing or an argument is refused; no record is written then.
        CheckpointError: the checkpoint cannot be written; the run can be resumed.
    """
    resources = resources or Resources()
    stored = {k: find_completed(prefix, out) for k, prefix in spec.with_prefixes().items()}
    if not force:
        finished = _reuse(spec, out, resources, stored)
        if finished is None and not any(stored.values()):
            finished = _reweight(spec, out, resources)
        if finished is not None:
            return finished
    return _compute(spec, out, resources, stored, force=force, debug=debug)


def _reuse(spec: RunSpec, out: Path, resources: Resources, stored: Stored) -> Run | None:
    """Answer with the records that are there, if that can be done without sampling."""
    records = {islands: record for islands, record in stored.items() if record is not None}
    if len(records) < len(stored):
        return None
    saved = spec.folder(out) / POSTERIOR
    lacks_confidence = spec.confidence and not all(map(has_confidence, records.values()))
    if not lacks_confidence and (saved.exists() or not spec.save_posterior):
        return _as_run(spec, out, records, reused=True)
    if lacks_confidence and saved.exists():
        context = prepare_context(spec, resources)
        posterior = load(saved, context.network)
        completed = {k: _add_confidence(r, posterior, context, out) for k, r in records.items()}
        return _as_run(spec, out, completed)
    return None


def _reweight(spec: RunSpec, out: Path, resources: Resources) -> Run | None:
    """Make the records from a saved run that has the same islands with other weights."""
    other = find_reweightable(spec, out)
    if other is None:
        return None
    context = prepare_context(spec, resources)
    posterior = load(other.posterior, context.network).reweighted(spec.settings["island_weights"])
    records = {}
    for islands, prefix in spec.with_prefixes().items():
        record = replace(
            other.records[islands],
            settings=prefix.settings,
            cost={**other.records[islands].cost, "wall_seconds": None},
            metrics=all_metrics(first_islands(posterior, islands), context.data),
            derived_from=other.records[spec.islands].hash,
        )
        write_record(out, record)
        if spec.confidence:
            record = _add_confidence(record, posterior, context, out)
        records[islands] = record
    folder = spec.folder(out)
    write_extremes(folder, posterior, context.data)
    if spec.save_posterior:
        posterior.save(folder / POSTERIOR)
    return _as_run(spec, out, records)


def _compute(
    spec: RunSpec, out: Path, resources: Resources, stored: Stored, *, force: bool, debug: bool
) -> Run:
    """Train, sample, measure and write the records."""
    folder, method = spec.folder(out), get_method(spec.method)
    # What the user can correct (missing data, a bad setting) is refused before the run begins, and
    # leaves no record: there has been no run.
    resumable = folder if method.sampler is not None else None
    context = prepare_context(spec, resources, resumable, retrain=force)
    run_file = RunFile(spec, describe_data(context.data), software_versions())
    with open_run(run_file, folder):
        if force:
            remove_checkpoint(folder)
        began = time.perf_counter()
        try:
            outcome = method.run(context)
            records = _measure_all(context, outcome)
        except (BadInput, CheckpointError):
            raise
        except Exception as error:
            logger.debug("run failed", exc_info=True)
            record = failed_record(context, error, time.perf_counter() - began)
            write_record(out, record)
            if debug:
                raise
            return _as_run(spec, out, {spec.islands: record})
        write_examples(folder, outcome.posterior, context.data)
        write_extremes(folder, outcome.posterior, context.data)
        if spec.save_posterior:
            outcome.posterior.save(folder / POSTERIOR)
        # The record of all islands is written last: if it is there, nothing is missing.
        for islands in reversed(list(records)):
            record, old = records[islands], None if force else stored[islands]
            if record.derived_from and old is not None and old.derived_from is None:
                record = old  # it was run alone, so its wall time is known
            elif not spec.confidence:
                write_record(out, record)
            if spec.confidence:
                record = _add_confidence(record, outcome.posterior, context, out)
            records[islands] = record
        if records[spec.islands].outcome == "completed":
            run_file.finish(folder)
    return _as_run(spec, out, records)


def _measure_all(context: Context, outcome: Outcome) -> dict[int, Record]:
    """Records of the run and of its first islands, where at least one island is complete."""
    reports = outcome.posterior.islands
    return {
        islands: measure(context, outcome, prefix)
        for islands, prefix in context.spec.with_prefixes().items()
        if any(report.outcome == "completed" for report in reports[:islands])
    }


def _add_confidence(record: Record, posterior: Posterior, context: Context, out: Path) -> Record:
    islands = first_islands(posterior, record.settings["islands"])
    record = with_confidence(record, islands, context, record.folder(out))
    write_record(out, record)
    return record


def _as_run(spec: RunSpec, out: Path, records: dict[int, Record], *, reused: bool = False) -> Run:
    prefixes = {islands: each for islands, each in records.items() if islands != spec.islands}
    return Run(records[spec.islands], spec.folder(out) / RECORD, prefixes, reused)
