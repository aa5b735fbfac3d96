"""Makes the record of a run from what its method returned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbmc.prediction.metrics import classification_metrics, ood_metrics
from sbmc.prediction.prediction import Prediction
from sbmc.storage.provenance import hardware_summary, software_versions
from sbmc_studies.experiments.methods import Outcome, get_method
from sbmc_studies.records.record import COST_FIELDS, Record
from sbmc_studies.runs.convergence import convergence
from sbmc_studies.runs.reweighting import OTHER_WEIGHTS

if TYPE_CHECKING:
    from torch import Tensor

    from sbmc.datasets import DataBundle
    from sbmc.islands.island import IslandReport
    from sbmc.posterior.posterior import Posterior
    from sbmc_studies.experiments.context import Context
    from sbmc_studies.experiments.run_spec import RunSpec

_ISLAND_FIELDS = (
    *("index", "outcome", "log_evidence", "epochs", "acceptance", "step_size"),
    *("message", "attempts"),
)


def first_islands(posterior: Posterior, islands: int) -> Posterior:
    """The posterior of the first islands; of all of them, it is the posterior itself."""
    return posterior if islands == len(posterior.islands) else posterior.first(islands)


def measure(context: Context, outcome: Outcome, spec: RunSpec) -> Record:
    """Measure what a method returned, or its first islands.

    Args:
        context: of the run.
        outcome: what the method returned.
        spec: the run itself, or that of its first islands.

    Returns:
        The record; `partial` if an island failed.
    """
    derived = spec.islands != context.spec.islands
    posterior = outcome.posterior.first(spec.islands) if derived else outcome.posterior
    details = dict(outcome.details)
    if "fit" in details:
        # The predictions on a few rows serve to recognise a saved posterior; no record needs them.
        details["fit"] = {k: v for k, v in details["fit"].items() if k != "probe"}
    if get_method(spec.method).sampler is not None:
        diagnostics = convergence(posterior, context.data)
        details |= {"diagnostics": diagnostics} if diagnostics else {}
        details["health"] = posterior.health.as_dict()
    reports = [island_fields(report) for report in posterior.islands]
    completed = all(report["outcome"] == "completed" for report in reports)
    return _record(
        context,
        spec,
        cost={
            **outcome.cost(spec.islands),
            "wall_seconds": None if derived else outcome.wall_seconds,
        },
        metrics=all_metrics(posterior, context.data),
        islands=reports,
        outcome="completed" if completed else "partial",
        derived_from=context.spec.hash if derived else None,
        details=details,
    )


def failed_record(context: Context, error: Exception, seconds: float) -> Record:
    """The record of a run that failed.

    Args:
        context: of the run.
        error: why it failed.
        seconds: that it took until then.

    Returns:
        The record, without metrics.
    """
    return _record(
        context,
        context.spec,
        cost={**dict.fromkeys(COST_FIELDS), "wall_seconds": seconds},
        metrics={},
        islands=[],
        outcome="failed",
        message=f"{type(error).__name__}: {error}",
    )


def _record(context: Context, spec: RunSpec, **fields: Any) -> Record:
    return Record(
        experiment=spec.experiment,
        method=spec.method,
        settings=spec.settings,
        seed=spec.seed,
        data=describe_data(context.data),
        versions=software_versions(),
        hardware=hardware_summary(),
        **fields,
    )


def describe_data(data: DataBundle) -> dict[str, Any]:
    """What records and run files say about the data."""
    return {"name": data.name, "checksum": data.checksum, **data.about}


def all_metrics(posterior: Posterior, data: DataBundle) -> dict[str, float | None]:
    """Metrics of a posterior on the test data and the out-of-domain groups.

    Args:
        posterior: the ensemble.
        data: the data set.

    Returns:
        Metrics by name. If islands can be combined in two ways, those of the other way are there
        too, their names preceded by its name.
    """
    metrics = _metrics(posterior, data)
    if posterior.evidence is not None and "anchors" not in posterior.settings:
        other = OTHER_WEIGHTS[posterior.weighting]
        reweighted = _metrics(posterior.reweighted(other), data)
        metrics |= {f"{other}.{name}": value for name, value in reweighted.items()}
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


def island_fields(report: IslandReport) -> dict[str, Any]:
    """What a record says about an island."""
    values = {name: getattr(report, name, None) for name in _ISLAND_FIELDS}
    if report.temperatures:
        # A list for each column, with six digits, because eight islands of twenty temperatures
        # would make the record long.
        values["collapsed"] = report.collapsed
        values["forward_epochs"] = report.forward_epochs
        values["temperatures"] = {
            name: [float(f"{each[name]:.6g}") for each in report.temperatures]
            for name in report.temperatures[0]
        }
    return values
