"""What a method is given and what it comes to, and the calls of `sbmc.fit` that methods share."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

import sbmc
from sbmc.datasets.bundle import DataBundle
from sbmc.posterior.posterior import Posterior
from sbmc.prediction.mixture import ClassificationSums
from sbmc.prediction.prediction import Prediction
from sbmc_studies.gauntlet.pairs import Pair
from sbmc_studies.gauntlet.training import BATCHES, Trained, train_batch

DEFAULT, WITHOUT_VALIDATION = "sbmc", "sbmc-no-validation"
ROWS_AT_ONCE = 500
# What a posterior says of the code that evaluated the network.
ENGINE = ("path", "kernel")


@dataclass
class PairRun:
    """One pair with one seed: its data, and the members that have been trained for it so far."""

    pair: Pair
    data: DataBundle
    seed: int
    members: list[Trained] = field(default_factory=list)

    def trained(self, count: int) -> list[Trained]:
        """The first members of the ensemble; those that are missing are trained now."""
        for batch in BATCHES:
            if len(self.members) < count and batch[0] == len(self.members):
                self.members += train_batch(self.pair, self.data, self.seed, batch)
        return self.members[:count]

    @property
    def network(self) -> Trained:
        """The network that is handed to `fit`."""
        return self.trained(1)[0]

    @property
    def passes(self) -> int:
        """Passes over the data of one training."""
        return self.pair.training["epochs"]


@dataclass(frozen=True)
class Fitted:
    """What a method has come to.

    Attributes:
        predict: from inputs to a prediction.
        seconds: what it took, the network's training included.
        passes: gradient passes over the training rows, likewise.
        about: what else the record says of it, as plain values.
    """

    predict: Callable[[Any], Prediction]
    seconds: float
    passes: float
    about: dict[str, Any] = field(default_factory=dict)


class NotSupported(Exception):
    """The method cannot be used on this pair; the message says why."""


def default_arguments(run: PairRun, method: str) -> dict[str, Any]:
    """What a user hands to `sbmc.fit`, with no setting at all, for both ways of using it."""
    unseen = {"validation": run.data.validation} if method == DEFAULT else {}
    return {
        "model": run.network.model,
        "data": run.data.train,
        "parameters": run.pair.parameters,
        "seed": run.seed,
        "progress": False,
        **unseen,
    }


def sampled(run: PairRun, **arguments: Any) -> Fitted:
    """A call of `sbmc.fit`, the network's training counted."""
    trained = run.network
    began = time.perf_counter()
    with warnings.catch_warnings():
        # The verdict is in the record.
        warnings.simplefilter("ignore", sbmc.HealthWarning)
        posterior = sbmc.fit(**arguments)
    seconds = time.perf_counter() - began + trained.seconds
    passes = posterior.cost.total_epochs - posterior.cost.anchor_epochs + run.passes
    return fitted_by(posterior, seconds, passes)


def fitted_by(posterior: Posterior, seconds: float, passes: float) -> Fitted:
    """What a posterior comes to, with its verdict, its engine and its mixture for the record."""
    about: dict[str, Any] = {"health": posterior.health.as_dict()}
    about |= {name: posterior.settings[name] for name in ENGINE if name in posterior.settings}
    mixture = getattr(posterior, "mixture", None)
    if mixture is not None:
        about["mixture"] = mixture.as_dict()

    def predict(inputs: Any) -> Prediction:
        prediction = posterior.predict(inputs)
        assert isinstance(prediction, Prediction)
        return prediction

    return Fitted(predict, seconds, passes, about)


def mixture_of(models: list[nn.Module], sharpness: float = 1.0) -> Callable[[Any], Prediction]:
    """The equal mixture of networks, each with buffers of its own."""

    def predict(inputs: Any) -> Prediction:
        sums = ClassificationSums()
        with torch.no_grad():
            for model in models:
                logits: Tensor = torch.cat([model(part) for part in inputs.split(ROWS_AT_ONCE)])
                sums.add(sharpness * logits.unsqueeze(0), torch.ones(1))
        return sums.prediction()

    return predict
