"""The methods that are compared on a pair. All see the same training rows.

The network itself, temperature scaling and the default of `sbmc.fit` may look at the validation
rows as well: the first two do it as their users do, and ours chooses its mixture on them. Seconds
and gradient passes include the training of the network that a method starts from.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
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
from sbmc_studies.gauntlet.networks import build_pair_network
from sbmc_studies.gauntlet.pairs import Pair
from sbmc_studies.gauntlet.training import Trained, train_pair

ROWS_AT_ONCE = 500
LAPLACE_DRAWS = 100  # of the outputs, which cost nothing but their own sampling


@dataclass
class PairRun:
    """One pair with one seed: its data, and the members that have been trained for it so far."""

    pair: Pair
    data: DataBundle
    seed: int
    members: list[Trained] = field(default_factory=list)

    def trained(self, count: int) -> list[Trained]:
        """The first members of the ensemble; those that are missing are trained now."""
        while len(self.members) < count:
            self.members.append(train_pair(self.pair, self.data, self.seed, len(self.members)))
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
    return Fitted(_mixture([trained.model]), trained.seconds, run.passes)


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
    return Fitted(
        _mixture([trained.model], chosen), seconds, run.passes, {"temperature": 1 / chosen}
    )


def deep_ensemble(members: int) -> Callable[[PairRun], Fitted]:
    """Networks trained alike from different initial weights; the first is the network itself."""

    def fit_ensemble(run: PairRun) -> Fitted:
        trained = run.trained(members)
        models = [each.model for each in trained]
        seconds = sum(each.seconds for each in trained)
        return Fitted(_mixture(models), seconds, members * run.passes)

    return fit_ensemble


def default(run: PairRun) -> Fitted:
    """`sbmc.fit(model, data, validation=...)`, with no setting at all."""
    return _sampled(run, validation=run.data.validation)


def default_without_validation(run: PairRun) -> Fitted:
    """`sbmc.fit(model, data)`: no rows that the network has not seen."""
    return _sampled(run)


def paper(run: PairRun) -> Fitted:
    """The paper's settings for its own networks, stopped at the cost of ten trainings."""
    if run.pair.network["kind"] != "mlp":
        raise NotSupported("the paper's settings are run on the MLPs only")
    epochs = max(8, min(160, 10 * run.passes // 10))
    sampler = sbmc.HMC(steps=epochs, leapfrog=1, step_size=0.1, jitter=0.1)
    return _sampled(run, s=0.1, prior_variance=1.0, sampler=sampler, start="prior")


def swag_posterior(run: PairRun) -> Fitted:
    """SWAG with ten draws (Maddox et al., 2019)."""
    _refuse_adapters(run)
    began = time.perf_counter()
    fresh = _fresh(run)
    posterior = swag(
        fresh, run.data.train, prior_variance=_decay_variance(run), seed=run.seed, progress=False
    )
    return _fitted(posterior, time.perf_counter() - began, posterior.cost.total_epochs)


def mc_dropout(run: PairRun) -> Fitted:
    """Dropout in training and in prediction, ten masks (Gal and Ghahramani, 2016)."""
    _refuse_adapters(run)
    began = time.perf_counter()
    trained = train_mc_dropout(
        _fresh(run),
        run.data.train,
        rate=0.1,
        layers="last",
        prior_variance=_decay_variance(run),
        max_epochs=run.passes,
        seed=run.seed,
        progress=False,
    )
    posterior = dropout_posterior(trained, rate=0.1, layers="last", seed=run.seed)
    return _fitted(posterior, time.perf_counter() - began, run.passes)


def laplace_last_layer(run: PairRun) -> Fitted:
    """Laplace approximation of the last layer (laplace-torch)."""
    return _laplace(run, "last")


def laplace_kron(run: PairRun) -> Fitted:
    """Laplace approximation of all layers by Kronecker factors (laplace-torch)."""
    return _laplace(run, run.pair.parameters)


def sms_ubu(run: PairRun) -> Fitted:
    """SMS-UBU's recipe: an anchor by SWA, a Gaussian factor of variance 1/50, UBU (Paulin 2025)."""
    _refuse_adapters(run)
    began = time.perf_counter()
    anchor = train_swa(
        _fresh(run),
        run.data.train,
        prior_variance=_decay_variance(run),
        seed=run.seed,
        progress=False,
    )
    epochs = max(2, run.passes // 20 * 2)
    fitted = _sampled(
        run,
        model=anchor,
        prior_variance=_decay_variance(run),
        prior=sbmc.Prior(factor_variance=1 / 50),
        sampler=sbmc.UBU(epochs=epochs),
    )
    return Fitted(fitted.predict, time.perf_counter() - began, fitted.passes, fitted.about)


METHODS: dict[str, Callable[[PairRun], Fitted]] = {
    "network": network,
    "temperature": temperature_scaling,
    "ensemble-5": deep_ensemble(5),
    "ensemble-10": deep_ensemble(10),
    "sbmc": default,
    "sbmc-no-validation": default_without_validation,
    "swag": swag_posterior,
    "mc-dropout": mc_dropout,
    "laplace-last": laplace_last_layer,
    "laplace-kron": laplace_kron,
    "sms-ubu": sms_ubu,
    "paper": paper,
}


def _sampled(run: PairRun, model: nn.Module | None = None, **settings: Any) -> Fitted:
    trained = run.network
    began = time.perf_counter()
    with warnings.catch_warnings():
        # The verdict is in the record.
        warnings.simplefilter("ignore", sbmc.HealthWarning)
        posterior = sbmc.fit(
            trained.model if model is None else model,
            run.data.train,
            parameters=run.pair.parameters,
            seed=run.seed,
            progress=False,
            **settings,
        )
    seconds = time.perf_counter() - began + (trained.seconds if model is None else 0.0)
    passes = posterior.cost.total_epochs - posterior.cost.anchor_epochs + run.passes
    return _fitted(posterior, seconds, passes)


def _fitted(posterior: Posterior, seconds: float, passes: float) -> Fitted:
    about: dict[str, Any] = {"health": posterior.health.as_dict()}
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
        for rows in inputs.split(ROWS_AT_ONCE):
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


def _decay_variance(run: PairRun) -> float:
    """The prior variance that the pair's weight decay stands for; 1 where there is none."""
    decay = run.pair.training.get("weight_decay", 0.0)
    return 1.0 if decay == 0.0 else 1.0 / (decay * len(run.data.train[1]))


def _fresh(run: PairRun) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(1_000 * run.seed)
        shape = tuple(run.data.train[0].shape[1:])
        return build_pair_network(run.pair.network, shape, run.data.classes)


def _refuse_adapters(run: PairRun) -> None:
    if run.pair.network["kind"] == "lora":
        raise NotSupported("this method trains a whole network, and the pair adapts a frozen one")


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
