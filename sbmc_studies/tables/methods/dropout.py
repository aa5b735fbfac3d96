"""MC Dropout (Gal and Ghahramani, 2016), its rate chosen on the rows set aside.

For numbers the network gives the noise: a draw by dropout has no noise that was learned beside it.
Dropout is trained by autograd, one network after another, and so has a limit of steps.
"""

from __future__ import annotations

import time

import numpy as np

from sbmc.baselines import dropout_posterior, train_mc_dropout
from sbmc.likelihoods import Gaussian
from sbmc.posterior.posterior import Posterior
from sbmc_studies.tables.methods.fitted import Fitted
from sbmc_studies.tables.recipe import Prepared, fresh_network, predict_posterior
from sbmc_studies.tables.scoring import score_classification, score_regression

RATES = (0.01, 0.05, 0.1)
DRAWS, STEPS = 100, 20_000
LAYERS = "."  # the inputs of every layer, as in the paper


def mc_dropout(prepared: Prepared) -> Fitted:
    """A network for each of three rates, and the one with the lowest NLL on the rows set aside."""
    began = time.perf_counter()
    fits = {rate: _posterior(prepared, rate) for rate in RATES}
    losses = {rate: _loss(prepared, posterior) for rate, posterior in fits.items()}
    rate = min(losses, key=losses.__getitem__)
    seconds = time.perf_counter() - began
    chosen = fits[rate]
    return Fitted(
        lambda inputs: predict_posterior(chosen, prepared, inputs), seconds, {"rate": rate}
    )


def _posterior(prepared: Prepared, rate: float) -> Posterior:
    seed, likelihood, outputs = prepared.seed, prepared.likelihood, prepared.outputs
    if not prepared.split.is_classification:
        likelihood, outputs = Gaussian(noise="network"), 2
    training = prepared.training
    epochs = STEPS * training["batch_size"] // len(prepared.train_rows)
    training["max_epochs"] = min(training["max_epochs"], epochs)
    trained = train_mc_dropout(
        fresh_network(prepared, outputs),
        prepared.train,
        prepared.aside,
        rate=rate,
        layers=LAYERS,
        likelihood=likelihood,
        seed=seed,
        progress=False,
        **training,
    )
    return dropout_posterior(
        trained, rate=rate, samples=DRAWS, layers=LAYERS, likelihood=likelihood, seed=seed
    )


def _loss(prepared: Prepared, posterior: Posterior) -> float:
    inputs, targets = prepared.raw(prepared.aside_rows)
    predicted = predict_posterior(posterior, prepared, np.asarray(inputs))
    if prepared.split.is_classification:
        return score_classification(predicted, targets)["nll"]  # type: ignore[arg-type]
    return score_regression(predicted, targets)["nll"]  # type: ignore[arg-type]
