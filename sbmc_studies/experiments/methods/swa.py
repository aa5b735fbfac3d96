"""SWA, and SWAG around it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sbmc.baselines import swag
from sbmc_studies.experiments.methods.contract import (
    Method,
    Outcome,
    network_outcome,
    single_network_outcome,
)

if TYPE_CHECKING:
    from sbmc_studies.experiments.context import Context

# The paper's, but for the learning rate of the warm-up, which it does not give.
SWA_SETTINGS = {
    "swa_epochs": 160,
    "warmup_epochs": 25,
    "sgd_learning_rate": 0.1,
    "swa_learning_rate": 5e-4,
    "momentum": 0.9,
}


def run_swa(context: Context) -> Outcome:
    """Train by SGD, and average the weights."""
    return network_outcome(context.swa())


def run_swag(context: Context) -> Outcome:
    """The same, with a Gaussian fitted to what the average is made of."""
    began = time.perf_counter()
    posterior = swag(
        context.fresh_network(),
        context.data.train,
        context.data.validation,
        samples=context.settings["particles"],
        rank=context.settings["rank"],
        **context.baseline("swag"),
    )
    return single_network_outcome(posterior, None, time.perf_counter() - began)


METHODS = (
    Method(
        name="swa",
        label="SWA",
        description="stochastic weight averaging: the mean of the weights that SGD passes through",
        cost="one training: swa_epochs (160)",
        run=run_swa,
        fixed={"s": 0.0, "particles": 1, "islands": 1},
        defaults=SWA_SETTINGS,
    ),
    Method(
        name="swag",
        label="SWAG",
        description="SWA-Gaussian: draws from a Gaussian fitted to the weights on the path of SGD",
        cost="one training: swa_epochs (160)",
        run=run_swag,
        uses=("particles",),
        fixed={"s": 0.0, "islands": 1},
        defaults={**SWA_SETTINGS, "rank": 20},
    ),
)
