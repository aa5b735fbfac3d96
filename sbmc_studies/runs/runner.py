"""Runs one method of an experiment with one seed, and writes its record."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbmc.checks import BadInput, require
from sbmc.islands.checkpoints import CheckpointError
from sbmc.log import logger
from sbmc.posterior.saving import load
from sbmc.prediction.metrics import classification_metrics, ood_metrics
from sbmc.prediction.prediction import Prediction
from sbmc.storage.provenance import hardware_summary, software_versions
from sbmc_studies.experiments.context import Context, Workshop
from sbmc_studies.experiments.execution import Execution
from sbmc_studies.experiments.experiment import Experiment
from sbmc_studies.experiments.methods import Method, Outcome
from sbmc_studies.experiments.networks import build_network
from sbmc_studies.experiments.settings import Settings, settings_hash
from sbmc_studies.records.record import Record, find_completed, record_path, write_record
from sbmc_studies.runs.confidence import has_confidence, with_confidence
from sbmc_studies.runs.convergence import convergence
from sbmc_studies.runs.examples import write_examples
from sbmc_studies.runs.extremes import write_extremes
from sbmc_studies.runs.reweighting import OTHER, POSTERIOR, Twin, find_twin
from sbmc_studies.runs.run_file import Journal, begin_anew, under_way

if TYPE_CHECKING:
    from torch import Tensor

    from sbmc.datasets import DataBundle
    from sbmc.posterior.posterior import Posterior


@dataclass(frozen=True)
class Run:
    """What `run_study` hands back: the record of the run, and those of its prefixes.

    Attributes:
        record: the run's own record.
        path: where it stands.
        prefixes: records of the first islands, by their number.
        reused: whether it had been run before, so that nothing was computed.
    """

    record: Record
    path: Path
    prefixes: dict[int, Record]
    reused: bool


def run_study(
    experiment: Experiment,
    method: Method,
    settings: Settings,
    seed: int,
    out: Path,
    *,
    also_islands: Sequence[int] = (),
    force: bool = False,
    confidence: bool = False,
    save_posterior: bool = False,
    workshop: Workshop | None = None,
    execution: Execution | None = None,
    debug: bool = False,
) -> Run:
    """Run one method with one seed and write its record; reuse the record if it is there.

    A run that was stopped before goes on where it was. One that fails in the middle writes its
    record too, with the outcome `failed` and the reason.

    Args:
        experiment: what is studied.
        method: what to run.
        settings: resolved settings.
        seed: of everything random.
        out: the folder of all records.
        also_islands: write records of the first that many islands of this run as well.
        force: run from the beginning, training included, even if a completed record is there.
        confidence: also train and test the meta-classifier. A record without it is completed from
            a saved posterior, or else run again.
        save_posterior: write the posterior beside the record.
        workshop: shared with other runs of this process.
        execution: how islands are run; in process, with a checkpoint, if not given.
        debug: let an unexpected error through, after its record is written.

    Returns:
        The record, new or old.

    Raises:
        BadInput: if the data are missing or an argument is refused; no record is written then.
        CheckpointError: the checkpoint cannot be written; the run can be gone on with.
    """
    require(isinstance(seed, int) and seed >= 0, "seed", "a non-negative integer", seed)
    for islands in also_islands:
        rule = f"between 1 and the number of islands ({settings['islands']})"
        require(1 <= islands <= settings["islands"], "also_islands", rule, islands)
    prefixes = sorted(set(also_islands) - {settings["islands"]})
    wanted = {k: {**settings, "islands": k} for k in (settings["islands"], *prefixes)}
    found = {
        k: find_completed(out, experiment.name, method.name, s, seed) for k, s in wanted.items()
    }
    path = _path(out, experiment.name, method.name, settings, seed)
    workshop, execution = workshop or Workshop(), execution or Execution()
    folder = path.parent
    saved = folder / POSTERIOR
    if not force and all(found.values()):
        old = {k: record for k, record in found.items() if record is not None}
        lacking = confidence and not all(map(has_confidence, old.values()))
        if not lacking and (saved.exists() or not save_posterior):
            return Run(old.pop(settings["islands"]), path, old, reused=True)
        if lacking and saved.exists():
            context = prepare_context(experiment, settings, seed, workshop)
            posterior = load(saved, context.network)
            done = {k: _add_confidence(r, posterior, context, out) for k, r in old.items()}
            return Run(done.pop(settings["islands"]), path, done, reused=False)

    new = not force and not any(found.values())
    twin = find_twin(out, experiment.name, method.name, wanted, seed) if new else None
    if twin is not None:
        context = prepare_context(experiment, settings, seed, workshop)
        done = _reweigh(twin, context, wanted, out, confidence, save_posterior)
        return Run(done.pop(settings["islands"]), path, done, reused=False)

    # Whatever the user could mend (missing data, a bad setting) is refused before the run begins,
    # and leaves no record: there has been no run.
    context = prepare_context(experiment, settings, seed, workshop)
    context.execution, context.alone = execution, force
    if method.sampler is not None:
        context.folder = folder
    journal = Journal(
        experiment.name,
        method.name,
        settings,
        seed,
        also_islands=prefixes,
        confidence=confidence,
        save_posterior=save_posterior,
        execution=execution.as_dict(),
        data_dir=None if workshop.data_dir is None else str(Path(workshop.data_dir).absolute()),
        data=_about(context),
        versions=software_versions(),
    )
    with under_way(journal, folder):
        if force:
            begin_anew(folder)
        began = time.perf_counter()
        try:
            outcome = method.run(context)
            records = {
                k: _measure(context, method, outcome, wanted[k], parent=settings)
                for k in wanted
                if any(report.outcome == "completed" for report in outcome.posterior.islands[:k])
            }
        except (BadInput, CheckpointError):
            raise
        except Exception as error:
            logger.debug("run failed", exc_info=True)
            record = _failed(context, method, error, time.perf_counter() - began)
            write_record(out, record)
            if debug:
                raise
            return Run(record, path, {}, reused=False)
        write_examples(folder, outcome.posterior, context.data)
        write_extremes(folder, outcome.posterior, context.data)
        if save_posterior:
            outcome.posterior.save(saved)
        # Its own record last: where that is, nothing is missing.
        for islands in reversed(list(records)):
            record, old_record = records[islands], found[islands]
            measured = old_record is not None and old_record.derived_from is None
            if record.derived_from and measured and not force:
                assert old_record is not None
                record = old_record  # a run of its own knows its wall time: keep it
            elif not confidence:
                write_record(out, record)
            if confidence:
                record = _add_confidence(record, outcome.posterior, context, out)
            records[islands] = record
        own = records.pop(settings["islands"])
        if own.outcome == "completed":
            journal.finish(folder)
    return Run(own, path, records, reused=False)


def _reweigh(
    twin: Twin,
    context: Context,
    wanted: dict[int, Settings],
    out: Path,
    confidence: bool,
    save_posterior: bool,
) -> dict[int, Record]:
    """Records of the islands of another run, combined in the way that is asked for."""
    most = max(wanted)
    whole = load(twin.posterior, context.network).reweighted(wanted[most]["island_weights"])
    source, records = twin.records[most].hash, {}
    for islands, old in twin.records.items():
        own = whole if islands == most else whole.first(islands)
        record = replace(
            old,
            settings=wanted[islands],
            cost={**old.cost, "wall_seconds": None},
            metrics=_both_metrics(own, context.data),
            derived_from=source,
        )
        write_record(out, record)
        records[islands] = _add_confidence(record, whole, context, out) if confidence else record
    folder = _path(
        out, context.experiment.name, records[most].method, wanted[most], context.seed
    ).parent
    write_extremes(folder, whole, context.data)
    if save_posterior:
        whole.save(folder / POSTERIOR)
    return records


def _add_confidence(record: Record, posterior: Posterior, context: Context, out: Path) -> Record:
    islands = record.settings["islands"]
    own = posterior if islands == len(posterior.islands) else posterior.first(islands)
    folder = record_path(out, record.experiment, record.method, record.hash, record.seed).parent
    record = with_confidence(record, own, context, folder)
    write_record(out, record)
    return record


def prepare_context(
    experiment: Experiment, settings: Settings, seed: int, workshop: Workshop
) -> Context:
    """What a method is given: data and network, nothing trained.

    Raises:
        BadInput: if the data are missing.
    """
    data = workshop.data(experiment, seed, settings.get("fraction"))
    shape = tuple(data.train[0].shape[1:])
    network = build_network(settings["network"], shape, data.classes, data.frozen)
    return Context(experiment, settings, seed, data, network, workshop)


def _measure(
    context: Context, method: Method, outcome: Outcome, settings: Settings, parent: Settings
) -> Record:
    islands = settings["islands"]
    derived = islands != parent["islands"]
    posterior = outcome.posterior.first(islands) if derived else outcome.posterior
    data = context.data
    metrics = _both_metrics(posterior, data)
    details = dict(outcome.details)
    if "fit" in details:
        # What a few rows gave is for checkpoints and saved posteriors; nobody reads it.
        details["fit"] = {k: v for k, v in details["fit"].items() if k != "probe"}
    if method.sampler is not None:
        found = convergence(posterior, data)
        details |= {"diagnostics": found} if found else {}
        details["health"] = posterior.health.as_dict()
    reports = [_island(report) for report in posterior.islands]
    whole = all(report["outcome"] == "completed" for report in reports)
    return Record(
        experiment=context.experiment.name,
        method=method.name,
        settings=settings,
        seed=context.seed,
        data=_about(context),
        cost={
            **outcome.cost(islands),
            "wall_seconds": None if derived else outcome.wall_seconds,
        },
        metrics=metrics,
        islands=reports,
        outcome="completed" if whole else "partial",
        derived_from=_hash(context, method, parent) if derived else None,
        details=details,
        versions=software_versions(),
        hardware=hardware_summary(),
    )


def _both_metrics(posterior: Posterior, data: DataBundle) -> dict[str, float | None]:
    """Both ways to combine islands stand in every record that has a choice."""
    metrics = _metrics(posterior, data)
    if posterior.evidence is not None and "anchors" not in posterior.settings:
        other = OTHER[posterior.weighting]
        again = _metrics(posterior.reweighted(other), data)
        metrics |= {f"{other}.{name}": value for name, value in again.items()}
    return metrics


def _metrics(posterior: Posterior, data: DataBundle) -> dict[str, float | None]:
    inputs, labels = data.test
    outside = {group: _predict(posterior, each) for group, each in data.ood.items()}
    return {
        **classification_metrics(_predict(posterior, inputs), labels),
        **(ood_metrics(outside) if outside else {}),
        "island_ess": float(posterior.island_ess),
    }


def _predict(posterior: Posterior, inputs: Tensor) -> Prediction:
    prediction = posterior.predict(inputs)
    assert isinstance(prediction, Prediction)  # all studies so far are classifications
    return prediction


def _failed(context: Context, method: Method, error: Exception, seconds: float) -> Record:
    nothing = {"epochs": None, "forward_epochs": None, "anchor_epochs": None, "total_epochs": None}
    return Record(
        experiment=context.experiment.name,
        method=method.name,
        settings=context.settings,
        seed=context.seed,
        data=_about(context),
        cost={**nothing, "wall_seconds": seconds},
        metrics={},
        islands=[],
        outcome="failed",
        message=f"{type(error).__name__}: {error}",
        versions=software_versions(),
        hardware=hardware_summary(),
    )


def _island(report: Any) -> dict[str, Any]:
    names = (
        *("index", "outcome", "log_evidence", "epochs", "acceptance", "step_size"),
        *("message", "attempts"),
    )
    plain = {name: getattr(report, name, None) for name in names}
    if report.temperatures:
        # By column, with as many digits as anyone reads: eight islands of twenty temperatures.
        plain["collapsed"] = report.collapsed
        plain["forward_epochs"] = report.forward_epochs
        plain["temperatures"] = {
            name: [float(f"{each[name]:.6g}") for each in report.temperatures]
            for name in report.temperatures[0]
        }
    return plain


def _hash(context: Context, method: Method, settings: Settings) -> str:
    return settings_hash(context.experiment.name, method.name, settings)


def _path(out: Path, experiment: str, method: str, settings: Settings, seed: int) -> Path:
    return record_path(out, experiment, method, settings_hash(experiment, method, settings), seed)


def _about(context: Context) -> dict[str, Any]:
    """What records say about the data."""
    data = context.data
    return {"name": data.name, "checksum": data.checksum, **data.about}
