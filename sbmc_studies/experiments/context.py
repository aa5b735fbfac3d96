"""What a method is given: the run's spec, its data, and the networks that it asks for."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import sbmc
from sbmc.baselines import train_mc_dropout, train_swa
from sbmc.likelihoods import as_likelihood
from sbmc.model.parameters import select_parameters
from sbmc.posterior.ensemble import ensemble_posterior
from sbmc.randomness import Stream, generator
from sbmc.training.module import seeded
from sbmc_studies.experiments.execution import Execution
from sbmc_studies.experiments.experiment import Experiment, get_experiment
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.networks import untrained_network
from sbmc_studies.experiments.resources import Resources
from sbmc_studies.experiments.run_spec import RunSpec
from sbmc_studies.experiments.settings import TRAINING_SETTINGS, Settings, resolve
from sbmc_studies.experiments.trained_store import Rebuild, TrainedStore

if TYPE_CHECKING:
    from torch import nn

    from sbmc.datasets import DataBundle
    from sbmc.posterior.posterior import Posterior
    from sbmc.training.history import TrainingHistory


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
        """What a record says about the training."""
        return {
            "members": len(self.models),
            "epochs": self.epochs,
            "wall_seconds": self.seconds,
        }


@dataclass
class Context:
    """All that a method needs to run: the run's spec, its data and its untrained network.

    Attributes:
        spec: what is run.
        data: the data set.
        network: the untrained network.
        resources: shares trained networks with the other runs of this process.
        folder: the run's, if it can be resumed: trained networks are saved there too.
        retrain: whether to train even what another run in the same folder of records has trained.
    """

    spec: RunSpec
    data: DataBundle
    network: nn.Module
    resources: Resources
    folder: Path | None = None
    retrain: bool = False

    @property
    def experiment(self) -> Experiment:
        """What is studied."""
        return get_experiment(self.spec.experiment)

    @property
    def settings(self) -> Settings:
        """Resolved settings."""
        return self.spec.settings

    @property
    def seed(self) -> int:
        """The seed of everything random."""
        return self.spec.seed

    @property
    def execution(self) -> Execution:
        """How islands are run."""
        return self.spec.execution

    @property
    def progress(self) -> bool | None:
        """Whether to show progress, as `fit` takes it."""
        return self.resources.progress

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
        """The network to train; its initial weights matter if `initial` is "model"."""
        return self.fresh_network() if self.settings.get("initial") == "model" else self.network

    def swa(self) -> Trained:
        """Stochastic weight averaging, with the experiment's settings."""
        options = self.baseline("swa")
        return self._trained(
            "swa",
            lambda: train_swa(self.fresh_network(), *self._splits(), **options),
            *options.values(),
        )

    def fresh_network(self) -> nn.Module:
        """An untrained network with torch's initial weights, drawn from the seed."""
        with seeded(generator(self.seed, Stream.NETWORK), torch.device("cpu")):
            return untrained_network(self.settings, self.data)

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
        """Keywords for the training of a baseline: this run's settings, or else the preset's."""
        preset = resolve(self.experiment, get_method(method), "paper")
        settings = {**preset, **self.settings}
        if method == "mc-dropout":
            return {"rate": settings["dropout"]}
        return {
            "prior_variance": settings["prior_variance"],
            "epochs": settings["swa_epochs"],
            "warmup_epochs": settings["warmup_epochs"],
            "learning_rate": settings["sgd_learning_rate"],
            "swa_learning_rate": settings["swa_learning_rate"],
            "momentum": settings["momentum"],
            "batch_size": settings["batch_size"],
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

        return self._get_or_train(kind, self._key(kind, *more), make, rebuild)

    def ensemble(self, members: int, anchored: bool = False) -> Trained:
        """A deep ensemble; each member is trained as the anchor is, from other initial weights.

        Args:
            members: how many networks.
            anchored: anchor each member at a draw from the prior: randomised MAP sampling.

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

        key = self._key("ensemble", members, anchored)
        return self._get_or_train("ensemble", key, train, rebuild)

    def _get_or_train(
        self, kind: str, key: tuple, train: Callable[[], Trained], rebuild: Rebuild
    ) -> Trained:
        """Networks from the run's folder, or from this process, or newly trained."""
        if self.folder is None or not self.execution.saves_checkpoints:
            return self.resources.get_or_make(key, train)
        store = TrainedStore(self.folder, self.retrain)
        trained = store.read(kind, key, self.network, rebuild)
        if trained is None:
            trained = self.resources.get_or_make(key, train)
        # Those of another run are written too, since its folder may be removed.
        store.write(kind, key, trained)
        return trained

    def _splits(self) -> tuple[Any, Any]:
        return self.data.train, self.data.validation

    def _training(self) -> dict[str, Any]:
        settings = {name: self.settings[name] for name in TRAINING_SETTINGS}
        # Paper: the weights before training are drawn from the prior.
        settings["initial"] = self.settings.get("initial") or "prior"
        return {**settings, "seed": self.seed, "progress": self.progress}

    def _key(self, kind: str, *more: Any) -> tuple:
        training = tuple(self.settings[name] for name in ("network", *TRAINING_SETTINGS))
        optional = [self.settings.get(name) for name in ("fraction", "initial")]
        given = [value for value in optional if value is not None]
        run = kind, self.spec.experiment, self.data.checksum, self.seed
        return (*run, training, *given, *more)


def prepare_context(
    spec: RunSpec, resources: Resources, folder: Path | None = None, *, retrain: bool = False
) -> Context:
    """Load the data and build the network of a run; nothing is trained.

    Args:
        spec: what is run.
        resources: shared with the other runs of this process.
        folder: see `Context`.
        retrain: see `Context`.

    Returns:
        What the method is given.

    Raises:
        BadInput: the data are missing.
    """
    data = resources.data(spec)
    return Context(spec, data, untrained_network(spec.settings, data), resources, folder, retrain)


def _as_ensemble(
    network: nn.Module, models: Sequence[nn.Module], histories: Sequence[TrainingHistory]
) -> Any:
    """Put networks that were trained before together as an ensemble."""
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
