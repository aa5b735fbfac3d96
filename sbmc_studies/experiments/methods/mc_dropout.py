"""MC Dropout: a network trained with dropout, which drops units when it predicts, too."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sbmc.baselines import dropout_posterior
from sbmc_studies.experiments.methods.contract import Method, Outcome, single_network_outcome

if TYPE_CHECKING:
    from sbmc_studies.experiments.context import Context


def run(context: Context) -> Outcome:
    """Train with dropout, and draw networks from the one that comes out."""
    trained = context.dropout_network()
    began = time.perf_counter()
    posterior = dropout_posterior(
        trained.models[0],
        rate=context.settings["dropout"],
        samples=context.settings["particles"],
        seed=context.seed,
    )
    return single_network_outcome(posterior, trained, time.perf_counter() - began)


METHODS = (
    Method(
        name="mc-dropout",
        label="MC Dropout",
        description="a network trained with dropout in its last layer, which predicts with it too",
        cost="one training",
        run=run,
        uses=("particles",),
        fixed={"s": 0.0, "islands": 1},
        defaults={"dropout": 0.3},
    ),
)
