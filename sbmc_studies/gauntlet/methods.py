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
from typing import Any

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import sbmc
from sbmc.baselines import dropout_posterior, train_mc_dropout
from sbmc.prediction.mixture import ClassificationSums
from sbmc.prediction.prediction import Prediction, concatenate
from sbmc_studies.gauntlet.averaging import sms_ubu, swag_posterior
from sbmc_studies.gauntlet.fitted import (
    DEFAULT,
    WITHOUT_VALIDATION,
    Fitted,
    NotSupported,
    PairRun,
    default_arguments,
    fitted_by,
    mixture_of,
    sampled,
)
from sbmc_studies.gauntlet.training import fresh_network, optimiser_of

LAPLACE_DRAWS = 100  # of the outputs, which cost nothing but their own sampling
# Time and memory of the package's Jacobians grow with the square of the rows in a call.
LAPLACE_ROWS = 20
# Of dropout before the last layer, where a network has none of its own to keep switched on.
DROPOUT_RATE = 0.1


def network(run: PairRun) -> Fitted:
    """The network alone."""
    trained = run.network
    return Fitted(
        mixture_of([trained.model]), trained.seconds, run.passes, {"engine": trained.engine}
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
    return Fitted(mixture_of([trained.model], chosen), seconds, run.passes, about)


def deep_ensemble(members: int) -> Callable[[PairRun], Fitted]:
    """Networks trained alike from different initial weights; the first is the network itself."""

    def fit_ensemble(run: PairRun) -> Fitted:
        trained = run.trained(members)
        models = [each.model for each in trained]
        seconds = sum(each.seconds for each in trained)
        about = {"engine": trained[-1].engine}
        return Fitted(mixture_of(models), seconds, members * run.passes, about)

    return fit_ensemble


def default(run: PairRun) -> Fitted:
    """`sbmc.fit(model, data, validation=...)`, with no setting at all."""
    return sampled(run, **default_arguments(run, DEFAULT))


def default_without_validation(run: PairRun) -> Fitted:
    """`sbmc.fit(model, data)`: no rows that the network has not seen."""
    return sampled(run, **default_arguments(run, WITHOUT_VALIDATION))


def paper(run: PairRun) -> Fitted:
    """The paper's settings for its own networks, stopped at the cost of ten trainings."""
    if run.pair.network["kind"] != "mlp":
        raise NotSupported("the paper's settings are run on the MLPs only")
    epochs = max(8, min(160, 10 * run.passes // 10))
    sampler = sbmc.HMC(steps=epochs, leapfrog=1, step_size=0.1, jitter=0.1)
    arguments = default_arguments(run, WITHOUT_VALIDATION)
    return sampled(run, **arguments, s=0.1, prior_variance=1.0, sampler=sampler, start="prior")


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
    return fitted_by(posterior, time.perf_counter() - began, run.passes)


def laplace_last_layer(run: PairRun) -> Fitted:
    """Laplace approximation of the last layer (laplace-torch)."""
    return _laplace(run, "last")


def laplace_kron(run: PairRun) -> Fitted:
    """Laplace approximation of all layers by Kronecker factors (laplace-torch)."""
    return _laplace(run, run.pair.parameters)


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
