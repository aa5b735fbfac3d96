"""What the runs of one process share: data, trained networks, and what a method is given."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sbmc
from sbmc.baselines import train_mc_dropout, train_swa
from sbmc.likelihoods import as_likelihood
from sbmc.model.parameters import select_parameters
from sbmc.posterior.ensemble import ensemble_posterior
from sbmc.randomness import Stream, generator
from sbmc.training.module import seeded
from sbmc_studies.data import load_dataset
from sbmc_studies.experiments.execution import Execution
from sbmc_studies.experiments.experiment import Experiment
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.networks import build_network
from sbmc_studies.experiments.settings import Settings, resolve
from sbmc_studies.experiments.trained_store import TrainedStore

if TYPE_CHECKING:
    from torch import nn

    from sbmc.datasets import DataBundle
    from sbmc.posterior.posterior import Posterior
    from sbmc.training.history import TrainingHistory

TRAINING = ("prior_variance", "learning_rate", "batch_size", "max_epochs", "window", "patience")


@dataclass(frozen=True)
class Trained:
    """Networks that were trained, and what that cost.

    Attributes:
        models: the networks.
        histories: of their training.
        seconds: measured, all of them together.
        posterior: makes an ensemble of that many islands of them.
    """

    models: Sequence[nn.Module]
    histories: Sequence[TrainingHistory]
    seconds: float
    posterior: Callable[[int], Posterior]

    @property
    def member_epochs(self) -> list[int]:
        """Passes that each made over the training data."""
        return [history.epochs for history in self.histories]

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

    def data(self, experiment: Experiment, seed: int, fraction: float | None = None) -> DataBundle:
        """The experiment's data, or a part of them; what is drawn comes from the seed."""
        whole = self.keep(
            ("data", experiment.dataset, seed),
            lambda: load_dataset(experiment.dataset, self.data_dir, seed),
        )
        if fraction is None:
            return whole
        key = ("data", experiment.dataset, seed, fraction)
        return self.keep(key, lambda: whole.part(fraction, seed))


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
        folder: of the run, if it can be gone on with: trained networks are written there too.
        execution: how its islands are run.
        alone: train anew what another run in the same folder of records has trained.
    """

    experiment: Experiment
    settings: Settings
    seed: int
    data: DataBundle
    network: nn.Module
    workshop: Workshop
    folder: Path | None = None
    execution: Execution = field(default_factory=Execution)
    alone: bool = False

    @property
    def progress(self) -> bool | None:
        """Whether to show progress, as `fit` takes it."""
        return self.workshop.progress

    def anchor(self, kind: str | None = None) -> Trained:
        """The network that the prior is anchored at.

        Args:
            kind: `"map"`, the default: trained on the training examples, stopped early on the
                validation examples; `"swa"`: averaged weights; `"mc-dropout"`: trained with
                dropout.

        Returns:
            The network.
        """
        if kind == "swa":
            return self.swa()
        if kind == "mc-dropout":
            return self.dropout_network()
        return self._trained(
            "anchor",
            lambda: sbmc.train_map(self._start(), *self._splits(), **self._training()),
        )

    def _start(self) -> nn.Module:
        """The network to begin at: its own initial weights count where `initial` says so."""
        return self.fresh_network() if self.settings.get("initial") == "model" else self.network

    def swa(self) -> Trained:
        """Stochastic weight averaging, with the experiment's settings."""
        own = self.baseline("swa")
        return self._trained(
            "swa", lambda: train_swa(self.fresh_network(), *self._splits(), **own), *own.values()
        )

    def fresh_network(self) -> nn.Module:
        """An untrained network with torch's own initial weights, which the seed decides."""
        import torch

        shape = tuple(self.data.train[0].shape[1:])
        with seeded(generator(self.seed, Stream.NETWORK), torch.device("cpu")):
            return build_network(
                self.settings["network"], shape, self.data.classes, self.data.frozen
            )

    def dropout_network(self) -> Trained:
        """A network trained with dropout, with the experiment's settings."""
        rate = self.baseline("mc-dropout")["rate"]
        train, validation = self._splits()
        return self._trained(
            "mc-dropout",
            lambda: train_mc_dropout(
                self.network, train, validation, rate=rate, **self._training()
            ),
            rate,
        )

    def baseline(self, method: str) -> dict[str, Any]:
        """Keywords for the training of a baseline: as this run has them, or else its preset."""
        preset = resolve(self.experiment, get_method(method), "paper")
        own = {**preset, **self.settings}
        if method == "mc-dropout":
            return {"rate": own["dropout"]}
        return {
            "prior_variance": own["prior_variance"],
            "epochs": own["swa_epochs"],
            "warmup_epochs": own["warmup_epochs"],
            "learning_rate": own["sgd_learning_rate"],
            "swa_learning_rate": own["swa_learning_rate"],
            "momentum": own["momentum"],
            "batch_size": own["batch_size"],
            "seed": self.seed,
            "progress": self.progress,
        }

    def _trained(self, kind: str, train: Callable[[], Any], *more: Any) -> Trained:
        def rebuild(models: Sequence[nn.Module], histories: Any, seconds: float) -> Trained:
            def posterior(islands: int) -> Posterior:
                variance = self.settings["prior_variance"]
                return sbmc.fit(models[0], self.data.train, s=0, prior_variance=variance)

            return Trained(models, histories, seconds, posterior)

        def make() -> Trained:
            began = time.perf_counter()
            model = train()
            # Such as a low-rank adjustment, whose factors are balanced before anything is anchored.
            getattr(model, "after_training", lambda: None)()
            return rebuild([model], [model.history], time.perf_counter() - began)

        return self._kept(kind, self._key(kind, *more), make, rebuild)

    def ensemble(self, members: int, anchored: bool = False) -> Trained:
        """A deep ensemble, each member trained as the anchor is, from its own initial weights.

        Args:
            members: how many networks.
            anchored: draw each to a prior draw of its own: randomised MAP sampling.

        Returns:
            The networks.
        """

        def outcome(ensemble: sbmc.Ensemble, seconds: float) -> Trained:
            def posterior(islands: int) -> Posterior:
                return ensemble_posterior(ensemble, as_likelihood("categorical"), islands)

            return Trained(ensemble.models, ensemble.histories, seconds, posterior)

        def rebuild(models: Sequence[nn.Module], histories: Any, seconds: float) -> Trained:
            return outcome(_as_ensemble(self.network, models, histories), seconds)

        def train() -> Trained:
            began = time.perf_counter()
            ensemble = sbmc.train_ensemble(
                self.network,
                *self._splits(),
                members=members,
                anchored=anchored,
                **self._training(),
            )
            seconds = time.perf_counter() - began
            if len(ensemble) < members:
                raise RuntimeError(
                    f"{members - len(ensemble)} of {members} members failed to train"
                )
            return outcome(ensemble, seconds)

        return self._kept("ensemble", self._key("ensemble", members, anchored), train, rebuild)

    def _kept(self, kind: str, key: tuple, make: Callable[[], Trained], rebuild: Any) -> Trained:
        """From the run's folder, where one that goes on has its own; or else as others share it."""
        store = self._store()
        if store is None:
            return self.workshop.keep(key, make)
        found = store.read(kind, key, self.network, rebuild)
        if found is None:
            found = self.workshop.keep(key, make)
        store.write(kind, key, found)  # also those of another run, whose folder may go
        return found

    def _store(self) -> TrainedStore | None:
        keeps = self.folder is not None and self.execution.keeps()
        return TrainedStore(self.folder, self.alone) if keeps and self.folder is not None else None

    def _splits(self) -> tuple[Any, Any]:
        return self.data.train, self.data.validation

    def _training(self) -> dict[str, Any]:
        settings = {name: self.settings[name] for name in TRAINING}
        # Paper: the weights before training are drawn from the prior.
        settings["initial"] = self.settings.get("initial") or "prior"
        return {**settings, "seed": self.seed, "progress": self.progress}

    def _key(self, kind: str, *more: Any) -> tuple:
        training = tuple(self.settings[name] for name in ("network", *TRAINING))
        checksum = self.data.checksum
        own = [self.settings.get(name) for name in ("fraction", "initial")]
        own = [value for value in own if value is not None]
        return (kind, self.experiment.name, checksum, self.seed, training, *own, *more)


def _as_ensemble(
    network: nn.Module, models: Sequence[nn.Module], histories: Sequence[TrainingHistory]
) -> Any:
    """Networks that were trained before, as the ensemble that they were."""
    import torch

    space = select_parameters(network, "all")
    return sbmc.Ensemble(
        positions=torch.stack([space.flatten(model) for model in models]),
        members=tuple(range(len(models))),
        histories=tuple(histories),
        space=space,
        model=copy.deepcopy(network),
        buffers=tuple(dict(model.named_buffers()) for model in models),
        likelihood=as_likelihood("categorical"),
    )
