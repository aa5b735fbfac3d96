"""The methods that are compared on a pair. All train, or sample, on the same training rows.

No method trains or samples on the validation rows. Two look at them: temperature scaling fits its
temperature there, and the default of `sbmc.fit` the weights of its mixture. Seconds and gradient
passes include the training of the network that a method starts from.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import sbmc
from sbmc.baselines import dropout_posterior, swag, train_mc_dropout, train_swa
from sbmc.datasets.bundle import DataBundle
from sbmc.posterior.posterior import Posterior
from sbmc.prediction.mixture import ClassificationSums
from sbmc.prediction.prediction import Prediction, concatenate
from sbmc_studies.gauntlet.pairs import Pair
from sbmc_studies.gauntlet.training import (
    BATCHES,
    Trained,
    fresh_network,
    optimiser_of,
    train_batch,
)

DEFAULT, WITHOUT_VALIDATION = "sbmc", "sbmc-no-validation"
ROWS_AT_ONCE = 500
# What a posterior says of the code that evaluated the network.
ENGINE = ("path", "kernel")
LAPLACE_DRAWS = 100  # of the outputs, which cost nothing but their own sampling
# Time and memory of the package's Jacobians grow with the square of the rows in a call.
LAPLACE_ROWS = 20
# Of SGD while weights are averaged: that of SWAG's paper, and lower ones for networks on which it
# diverges, such as BERT. An epoch may add so much to the loss that the training ended with.
SWA_RATES, SWA_RISE = (0.01, 1e-3, 1e-4, 1e-5), 0.1
# Of dropout before the last layer, where a network has none of its own to keep switched on.
DROPOUT_RATE = 0.1


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


def network(run: PairRun) -> Fitted:
    """The network alone."""
    trained = run.network
    return Fitted(
        _mixture([trained.model]), trained.seconds, run.passes, {"engine": trained.engine}
    )


def temperature_scaling(run: PairRun) -> Fitted:
    """The network with logits divided by T, the best on the validation rows (Guo et al., 2017)."""
    began = time.perf_counter()
    trained = run.network
    with torch.no_grad():
        logits = trained.model(run.data.validation[0]).double()
    # The loss is convex in 1/T. A grid in its logarithm is fine enough and cannot fail.
    sharpness = torch.logspace(-2, 1, 601, dtype=torch.float64)
    labels = run.data.validation[1]
    losses = torch.stack([F.cross_entropy(each * logits, labels) for each in sharpness])
    chosen = float(sharpness[losses.argmin()])
    seconds = trained.seconds + time.perf_counter() - began
    about = {"temperature": 1 / chosen, "engine": trained.engine}
    return Fitted(_mixture([trained.model], chosen), seconds, run.passes, about)


def deep_ensemble(members: int) -> Callable[[PairRun], Fitted]:
    """Networks trained alike from different initial weights; the first is the network itself."""

    def fit_ensemble(run: PairRun) -> Fitted:
        trained = run.trained(members)
        models = [each.model for each in trained]
        seconds = sum(each.seconds for each in trained)
        about = {"engine": trained[-1].engine}
        return Fitted(_mixture(models), seconds, members * run.passes, about)

    return fit_ensemble


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


def default(run: PairRun) -> Fitted:
    """`sbmc.fit(model, data, validation=...)`, with no setting at all."""
    return _sampled(run, **default_arguments(run, DEFAULT))


def default_in_four_trainings(run: PairRun) -> Fitted:
    """The same with `budget=4`: with the network's training, the passes of an ensemble of five."""
    return _sampled(run, **default_arguments(run, DEFAULT), budget=4)


def default_without_validation(run: PairRun) -> Fitted:
    """`sbmc.fit(model, data)`: no rows that the network has not seen."""
    return _sampled(run, **default_arguments(run, WITHOUT_VALIDATION))


def paper(run: PairRun) -> Fitted:
    """The paper's settings for its own networks, stopped at the cost of ten trainings."""
    if run.pair.network["kind"] != "mlp":
        raise NotSupported("the paper's settings are run on the MLPs only")
    epochs = max(8, min(160, 10 * run.passes // 10))
    sampler = sbmc.HMC(steps=epochs, leapfrog=1, step_size=0.1, jitter=0.1)
    arguments = default_arguments(run, WITHOUT_VALIDATION)
    return _sampled(run, **arguments, s=0.1, prior_variance=1.0, sampler=sampler, start="prior")


def swa(run: PairRun) -> Fitted:
    """The mean of the weights that SGD passes through (Izmailov et al., 2018), as one network."""
    began = time.perf_counter()
    settings, trials = _averaging(run)
    averaged = train_swa(run.network.model, run.data.train, **settings)
    seconds = run.network.seconds + time.perf_counter() - began
    return Fitted(_mixture([averaged]), seconds, 2 * run.passes + trials)


def swag_posterior(run: PairRun) -> Fitted:
    """SWAG with ten draws (Maddox et al., 2019): the network, trained for as long again."""
    trained = run.network
    began = time.perf_counter()
    settings, trials = _averaging(run)
    posterior = swag(trained.model, run.data.train, **settings)
    seconds = trained.seconds + time.perf_counter() - began
    return _fitted(posterior, seconds, 2 * run.passes + trials)


def mc_dropout(run: PairRun) -> Fitted:
    """Dropout before the last layer, ten masks (Gal and Ghahramani, 2016).

    A network of its own is trained, by the pair's optimiser, since dropout has to be there in
    training too. The networks have none, apart from BERT and GPT-2, which keep theirs in training.
    """
    if run.pair.network["kind"] == "lora":
        raise NotSupported("dropout goes before a linear layer, and the last one is adapted")
    began = time.perf_counter()
    optimiser, variance = optimiser_of(run.pair.training, len(run.data.train[1]))
    trained = train_mc_dropout(
        fresh_network(run.pair, run.data, run.seed),
        run.data.train,
        rate=DROPOUT_RATE,
        layers="last",
        optimiser=optimiser,
        prior_variance=variance,
        batch_size=run.pair.training["batch_size"],
        max_epochs=run.passes,
        seed=run.seed,
        progress=False,
    )
    posterior = dropout_posterior(trained, rate=DROPOUT_RATE, layers="last", seed=run.seed)
    return _fitted(posterior, time.perf_counter() - began, run.passes)


def laplace_last_layer(run: PairRun) -> Fitted:
    """Laplace approximation of the last layer (laplace-torch)."""
    return _laplace(run, "last")


def laplace_kron(run: PairRun) -> Fitted:
    """Laplace approximation of all layers by Kronecker factors (laplace-torch)."""
    return _laplace(run, run.pair.parameters)


def sms_ubu(run: PairRun) -> Fitted:
    """SMS-UBU's recipe: an anchor by SWA, a Gaussian factor of variance 1/50, UBU (Paulin 2025).

    The anchor averages the network, trained for as long again; ten chains share three trainings.
    """
    began = time.perf_counter()
    settings, trials = _averaging(run)
    anchor = train_swa(run.network.model, run.data.train, **settings)
    averaged = time.perf_counter() - began
    fitted = _sampled(
        run,
        **default_arguments(run, WITHOUT_VALIDATION) | {"model": anchor},
        prior_variance=_decay_variance(run),
        prior=sbmc.Prior(factor_variance=1 / 50),
        # Its passes over the data come in pairs.
        sampler=sbmc.UBU(epochs=2 * max(1, 3 * run.passes // 20)),
    )
    passes = fitted.passes + run.passes + trials
    return replace(fitted, seconds=fitted.seconds + averaged, passes=passes)


METHODS: dict[str, Callable[[PairRun], Fitted]] = {
    "network": network,
    "temperature": temperature_scaling,
    "ensemble-5": deep_ensemble(5),
    "ensemble-10": deep_ensemble(10),
    DEFAULT: default,
    WITHOUT_VALIDATION: default_without_validation,
    "swag": swag_posterior,
    "mc-dropout": mc_dropout,
    "laplace-last": laplace_last_layer,
    "laplace-kron": laplace_kron,
    "sms-ubu": sms_ubu,
    "paper": paper,
}


def _sampled(run: PairRun, **arguments: Any) -> Fitted:
    """A call of `sbmc.fit`, the network's training counted."""
    trained = run.network
    began = time.perf_counter()
    with warnings.catch_warnings():
        # The verdict is in the record.
        warnings.simplefilter("ignore", sbmc.HealthWarning)
        posterior = sbmc.fit(**arguments)
    seconds = time.perf_counter() - began + trained.seconds
    passes = posterior.cost.total_epochs - posterior.cost.anchor_epochs + run.passes
    return _fitted(posterior, seconds, passes)


def _fitted(posterior: Posterior, seconds: float, passes: float) -> Fitted:
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


def _laplace(run: PairRun, layers: str) -> Fitted:
    """laplace-torch as its documentation uses it: marginal likelihood, linearised network."""
    if layers == "lora":
        raise NotSupported("laplace-torch approximates whole layers, and the pair samples adapters")
    began = time.perf_counter()
    trained = run.network
    subset = "last_layer" if layers == "last" else "all"
    try:
        import laplace

        with warnings.catch_warnings():
            # It warns of its own defaults, which are meant here.
            warnings.simplefilter("ignore", UserWarning)
            approximation: Any = laplace.Laplace(
                copy.deepcopy(trained.model),
                "classification",
                subset_of_weights=subset,
                hessian_structure="kron",
            )
            approximation.fit(DataLoader(TensorDataset(*run.data.train), batch_size=256))
            approximation.optimize_prior_precision(method="marglik")
    # The package raises whatever its back end does for a layer that it does not cover.
    except Exception as error:
        raise NotSupported(f"laplace-torch: {_first_line(error)}") from error
    seconds = trained.seconds + time.perf_counter() - began

    def predict(inputs: Any) -> Prediction:
        parts = []
        with torch.random.fork_rng():
            # The package draws from the global generator.
            torch.manual_seed(run.seed)
            for rows in inputs.split(LAPLACE_ROWS):
                samples = approximation.predictive_samples(
                    rows, pred_type="glm", n_samples=LAPLACE_DRAWS
                )
                sums = ClassificationSums()
                sums.add(samples.clamp(min=1e-30).log(), torch.ones(len(samples)))
                parts.append(sums.prediction())
        return concatenate(parts)

    # One backward pass for each class makes the curvature, beside the training.
    return Fitted(predict, seconds, run.passes + run.data.classes)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _averaging(run: PairRun) -> tuple[dict[str, Any], int]:
    """Settings of SWA and SWAG, and the epochs that it took to find the learning rate.

    SGD goes on from the network, at the highest rate whose first epoch does not undo its training.
    """
    trained = run.network.model
    _, variance = optimiser_of(run.pair.training, len(run.data.train[1]))
    settings: dict[str, Any] = {
        "parameters": run.pair.parameters,
        "prior_variance": variance,
        "epochs": run.passes,
        "warmup_epochs": 0,
        "batch_size": run.pair.training["batch_size"],
        "seed": run.seed,
        "progress": False,
    }
    bound = trained.history.train_loss[-1] + SWA_RISE  # type: ignore[union-attr, index]
    for trials, rate in enumerate(SWA_RATES, start=1):
        settings |= {"learning_rate": rate, "swa_learning_rate": rate}
        try:
            once = train_swa(trained, run.data.train, **settings | {"epochs": 1})
        except RuntimeError:  # the loss stopped being finite
            continue
        if once.history.train_loss[-1] <= bound:  # type: ignore[union-attr, index]
            return settings, trials
    raise NotSupported(f"SGD undoes the network's training at any rate from {SWA_RATES[-1]:g} on")


def _decay_variance(run: PairRun) -> float:
    """The prior variance that the pair's weight decay stands for; 1 where there is none."""
    decay = run.pair.training.get("weight_decay", 0.0)
    return 1.0 if decay == 0.0 else 1.0 / (decay * len(run.data.train[1]))


def _mixture(models: list[nn.Module], sharpness: float = 1.0) -> Callable[[Any], Prediction]:
    """The equal mixture of networks, each with buffers of its own."""

    def predict(inputs: Any) -> Prediction:
        sums = ClassificationSums()
        with torch.no_grad():
            for model in models:
                logits: Tensor = torch.cat([model(part) for part in inputs.split(ROWS_AT_ONCE)])
                sums.add(sharpness * logits.unsqueeze(0), torch.ones(1))
        return sums.prediction()

    return predict
