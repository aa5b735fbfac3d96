"""Runs one method of an experiment with one seed, and writes its record."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbmc.checks import BadInput, require
from sbmc.log import logger
from sbmc.studies.experiments import Experiment
from sbmc.studies.methods import Method, Outcome
from sbmc.studies.records import (
    Record,
    hardware_summary,
    read_record,
    record_path,
    software_versions,
    write_record,
)
from sbmc.studies.settings import Settings, settings_hash

if TYPE_CHECKING:
    from torch import Tensor, nn

    from sbmc.datasets import DataBundle
    from sbmc.posterior import Posterior
    from sbmc.prediction import Prediction

TRAINING = ("prior_variance", "learning_rate", "batch_size", "max_epochs", "window", "patience")


@dataclass(frozen=True)
class Trained:
    """Networks that were trained, and what that cost.

    Attributes:
        models: the networks.
        member_epochs: passes that each made over the training data.
        seconds: measured, all of them together.
        posterior: makes an ensemble of that many islands of them.
    """

    models: Sequence[nn.Module]
    member_epochs: Sequence[int]
    seconds: float
    posterior: Callable[[int], Posterior]

    @property
    def epochs(self) -> float:
        """Mean passes per network."""
        return sum(self.member_epochs) / len(self.member_epochs)

    def summary(self) -> dict[str, Any]:
        """What a record says about it."""
        return {
            "members": len(self.models),
            "epochs": self.epochs,
            "wall_seconds": self.seconds,
        }


@dataclass
class Workshop:
    """What several runs of one process share: data, and networks trained with the same settings.

    A shared network counts in full in the cost of each run that uses it, as measured when it was
    trained: a record says what its run would have cost alone.

    Attributes:
        data_dir: where to look first for data files.
        progress: None for automatic, False for silence, True for lines where there is no terminal.
    """

    data_dir: Path | None = None
    progress: bool | None = None
    _kept: dict[tuple, Any] = field(default_factory=dict)

    def keep(self, key: tuple, make: Callable[[], Any]) -> Any:
        """Return what stands under a key, making it the first time."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def data(self, experiment: Experiment, seed: int) -> DataBundle:
        """The experiment's data; the generated out-of-domain groups come from the seed."""
        from sbmc.datasets import load_dataset

        return self.keep(
            ("data", experiment.dataset, seed),
            lambda: load_dataset(experiment.dataset, self.data_dir, seed),
        )


@dataclass
class Context:
    """What a method is given.

    Attributes:
        experiment: what is studied.
        settings: resolved settings.
        seed: of everything random.
        data: the data set.
        network: the untrained network.
        workshop: where trained networks are kept for the methods that follow.
    """

    experiment: Experiment
    settings: Settings
    seed: int
    data: DataBundle
    network: nn.Module
    workshop: Workshop

    @property
    def progress(self) -> bool | None:
        """Whether to show progress, as `fit` takes it."""
        return self.workshop.progress

    def anchor(self) -> Trained:
        """The MAP: trained on the training examples, stopped early on the validation examples."""
        import sbmc

        def train() -> Trained:
            began = time.perf_counter()
            model: Any = sbmc.train_map(self.network, *self._splits(), **self._training())
            seconds = time.perf_counter() - began

            def posterior(islands: int) -> Posterior:
                variance = self.settings["prior_variance"]
                return sbmc.fit(model, self.data.train, s=0, prior_variance=variance)

            return Trained([model], [model.history.epochs], seconds, posterior)

        return self.workshop.keep(self._key("anchor"), train)

    def ensemble(self, members: int) -> Trained:
        """A deep ensemble, each member trained as the anchor is, from its own initial weights."""
        import sbmc
        from sbmc.likelihoods import as_likelihood
        from sbmc.posterior import ensemble_posterior

        def train() -> Trained:
            began = time.perf_counter()
            ensemble = sbmc.train_ensemble(
                self.network, *self._splits(), members=members, **self._training()
            )
            seconds = time.perf_counter() - began
            if len(ensemble) < members:
                raise RuntimeError(
                    f"{members - len(ensemble)} of {members} members failed to train"
                )
            epochs = [history.epochs for history in ensemble.histories]

            def posterior(islands: int) -> Posterior:
                return ensemble_posterior(ensemble, as_likelihood("categorical"), islands)

            return Trained(ensemble.models, epochs, seconds, posterior)

        return self.workshop.keep(self._key("ensemble", members), train)

    def _splits(self) -> tuple[Any, Any]:
        return self.data.train, self.data.validation

    def _training(self) -> dict[str, Any]:
        settings = {name: self.settings[name] for name in TRAINING}
        return {**settings, "seed": self.seed, "progress": self.progress}

    def _key(self, kind: str, *more: int) -> tuple:
        training = tuple(self.settings[name] for name in ("network", *TRAINING))
        return (kind, self.experiment.name, self.seed, training, *more)


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
    workshop: Workshop | None = None,
    debug: bool = False,
) -> Run:
    """Run one method with one seed and write its record; reuse the record if it is there.

    A run that fails in the middle writes its record too, with the outcome `failed` and the reason.

    Args:
        experiment: what is studied.
        method: what to run.
        settings: resolved settings.
        seed: of everything random.
        out: the folder of all records.
        also_islands: write records of the first that many islands of this run as well.
        force: run even if a completed record is there.
        workshop: shared with other runs of this process.
        debug: let an unexpected error through, after its record is written.

    Returns:
        The record, new or old.

    Raises:
        BadInput: if the data are missing or an argument is refused; no record is written then.
    """
    require(isinstance(seed, int) and seed >= 0, "seed", "a non-negative integer", seed)
    for islands in also_islands:
        rule = f"between 1 and the number of islands ({settings['islands']})"
        require(1 <= islands <= settings["islands"], "also_islands", rule, islands)
    prefixes = sorted(set(also_islands) - {settings["islands"]})
    wanted = {k: {**settings, "islands": k} for k in (settings["islands"], *prefixes)}
    found = {k: _find(out, experiment.name, method.name, s, seed) for k, s in wanted.items()}
    path = _path(out, experiment.name, method.name, settings, seed)
    if not force and all(found.values()):
        old = {k: record for k, record in found.items() if record is not None}
        return Run(old.pop(settings["islands"]), path, old, reused=True)

    workshop = workshop or Workshop()
    # Whatever the user could mend (missing data, a bad setting) is refused before the run begins,
    # and leaves no record: there has been no run.
    context = _prepare(experiment, settings, seed, workshop)
    began = time.perf_counter()
    try:
        outcome = method.run(context)
        records = {
            k: _measure(context, method, outcome, wanted[k], parent=settings)
            for k in wanted
            if any(report.outcome == "completed" for report in outcome.posterior.islands[:k])
        }
    except BadInput:
        raise
    except Exception as error:
        logger.debug("run failed", exc_info=True)
        record = _failed(context, method, error, time.perf_counter() - began)
        write_record(out, record)
        if debug:
            raise
        return Run(record, path, {}, reused=False)
    for islands, record in records.items():
        old_record = found[islands]
        measured = old_record is not None and old_record.derived_from is None
        if record.derived_from and measured and not force:
            continue  # a run of its own knows its wall time: keep it
        write_record(out, record)
    from sbmc.figures.sure_unsure import write_examples

    write_examples(path.parent, outcome.posterior, context.data)
    own = records.pop(settings["islands"])
    return Run(own, path, records, reused=False)


def _prepare(experiment: Experiment, settings: Settings, seed: int, workshop: Workshop) -> Context:
    from sbmc.studies.networks import build_network

    data = workshop.data(experiment, seed)
    network = build_network(settings["network"], tuple(data.train[0].shape[1:]), data.classes)
    return Context(experiment, settings, seed, data, network, workshop)


def _measure(
    context: Context, method: Method, outcome: Outcome, settings: Settings, parent: Settings
) -> Record:
    islands = settings["islands"]
    derived = islands != parent["islands"]
    posterior = outcome.posterior.first(islands) if derived else outcome.posterior
    data = context.data
    metrics = _metrics(posterior, data)
    if posterior.evidence is not None:
        # Both ways to combine islands stand in every record that has a choice.
        other = "equal" if posterior.weighting == "evidence" else "evidence"
        again = _metrics(posterior.reweighted(other), data)
        metrics |= {f"{other}.{name}": value for name, value in again.items()}
    reports = [_island(report) for report in posterior.islands]
    whole = all(report["outcome"] == "completed" for report in reports)
    return Record(
        experiment=context.experiment.name,
        method=method.name,
        settings=settings,
        seed=context.seed,
        data={"name": data.name, "checksum": data.checksum},
        cost={
            **outcome.cost(islands),
            "wall_seconds": None if derived else outcome.wall_seconds,
        },
        metrics=metrics,
        islands=reports,
        outcome="completed" if whole else "partial",
        derived_from=_hash(context, method, parent) if derived else None,
        details=outcome.details,
        versions=software_versions(),
        hardware=hardware_summary(),
    )


def _metrics(posterior: Posterior, data: DataBundle) -> dict[str, float | None]:
    from sbmc.metrics import classification_metrics, ood_metrics

    inputs, labels = data.test
    outside = {group: _predict(posterior, each) for group, each in data.ood.items()}
    return {
        **classification_metrics(_predict(posterior, inputs), labels),
        **ood_metrics(outside),
        "island_ess": float(posterior.island_ess),
    }


def _predict(posterior: Posterior, inputs: Tensor) -> Prediction:
    from sbmc.prediction import Prediction

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
        data={"name": context.data.name, "checksum": context.data.checksum},
        cost={**nothing, "wall_seconds": seconds},
        metrics={},
        islands=[],
        outcome="failed",
        message=f"{type(error).__name__}: {error}",
        versions=software_versions(),
        hardware=hardware_summary(),
    )


def _island(report: Any) -> dict[str, Any]:
    names = ("index", "outcome", "log_evidence", "epochs", "acceptance", "step_size", "message")
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


def _find(out: Path, experiment: str, method: str, settings: Settings, seed: int) -> Record | None:
    path = _path(out, experiment, method, settings, seed)
    if not path.exists():
        return None
    record = read_record(path)
    return record if record.outcome == "completed" else None
