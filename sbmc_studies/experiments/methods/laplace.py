"""Laplace: a Gaussian fitted to the curvature at the MAP."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sbmc.baselines import laplace
from sbmc_studies.experiments.methods.contract import Method, Outcome, single_network_outcome

if TYPE_CHECKING:
    from sbmc_studies.experiments.context import Context


def run(context: Context) -> Outcome:
    """Train the MAP, fit the curvature, draw weights."""
    trained = context.anchor()
    began = time.perf_counter()
    posterior = laplace(
        trained.models[0],
        context.data.train_and_validation,
        prior_variance=context.settings["prior_variance"],
        samples=context.settings["particles"],
        structure=context.settings["structure"],
        seed=context.seed,
        progress=context.progress,
    )
    return single_network_outcome(posterior, trained, time.perf_counter() - began)


METHODS = (
    Method(
        name="laplace",
        label="Laplace",
        description="Laplace approximation at the MAP, Kronecker-factored: draws of all weights",
        cost="one training, and the passes that fit the curvature",
        run=run,
        uses=("particles",),
        fixed={"s": 0.0, "islands": 1},
        defaults={"structure": "kron"},
    ),
)
