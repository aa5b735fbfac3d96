"""What the runs of one process share: data, trained networks, and what a method is given."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbmc.randomness import Stream, generator
from sbmc.studies.experiments import Experiment
from sbmc.studies.settings import Settings

if TYPE_CHECKING:
    from torch import nn

    from sbmc.datasets import DataBundle
    from sbmc.posterior import Posterior

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
        import sbmc

        return self._trained(
            "anchor",
            lambda: sbmc.train_map(self.network, *self._splits(), **self._training()),
        )

    def swa(self) -> Trained:
        """Stochastic weight averaging, with the experiment's settings."""
        from sbmc.baselines import train_swa

        own = self.baseline("swa")
        return self._trained(
            "swa", lambda: train_swa(self.fresh_network(), *self._splits(), **own), *own.values()
        )

    def fresh_network(self) -> nn.Module:
        """An untrained network with torch's own initial weights, which the seed decides."""
        import torch

        from sbmc.studies.networks import build_network
        from sbmc.training.module import seeded

        shape = tuple(self.data.train[0].shape[1:])
        with seeded(generator(self.seed, Stream.NETWORK), torch.device("cpu")):
            return build_network(self.settings["network"], shape, self.data.classes)

    def dropout_network(self) -> Trained:
        """A network trained with dropout, with the experiment's settings."""
        from sbmc.baselines import train_mc_dropout

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
        from sbmc.studies.methods import get_method
        from sbmc.studies.settings import resolve

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
        import sbmc

        def make() -> Trained:
            began = time.perf_counter()
            model = train()
            seconds = time.perf_counter() - began

            def posterior(islands: int) -> Posterior:
                variance = self.settings["prior_variance"]
                return sbmc.fit(model, self.data.train, s=0, prior_variance=variance)

            return Trained([model], [model.history.epochs], seconds, posterior)

        return self.workshop.keep(self._key(kind, *more), make)

    def ensemble(self, members: int, anchored: bool = False) -> Trained:
        """A deep ensemble, each member trained as the anchor is, from its own initial weights.

        Args:
            members: how many networks.
            anchored: draw each to a prior draw of its own: randomised MAP sampling.

        Returns:
            The networks.
        """
        import sbmc
        from sbmc.likelihoods import as_likelihood
        from sbmc.posterior import ensemble_posterior

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
            epochs = [history.epochs for history in ensemble.histories]

            def posterior(islands: int) -> Posterior:
                return ensemble_posterior(ensemble, as_likelihood("categorical"), islands)

            return Trained(ensemble.models, epochs, seconds, posterior)

        return self.workshop.keep(self._key("ensemble", members, anchored), train)

    def _splits(self) -> tuple[Any, Any]:
        return self.data.train, self.data.validation

    def _training(self) -> dict[str, Any]:
        settings = {name: self.settings[name] for name in TRAINING}
        return {**settings, "seed": self.seed, "progress": self.progress}

    def _key(self, kind: str, *more: Any) -> tuple:
        training = tuple(self.settings[name] for name in ("network", *TRAINING))
        return (kind, self.experiment.name, self.seed, training, *more)
