"""The network alone, and a deep ensemble of five (Lakshminarayanan et al., 2017)."""

from __future__ import annotations

import time

from sbmc_studies.tables.methods.fitted import Fitted
from sbmc_studies.tables.recipe import Prepared, predict_posterior, train_members

MEMBERS = 5


def network(prepared: Prepared) -> Fitted:
    """One network, trained until its loss on the rows set aside no longer falls."""
    return _trained(prepared, 1)


def deep_ensemble(prepared: Prepared) -> Fitted:
    """Five such networks from independent starts, mixed equally; the first is the network."""
    return _trained(prepared, MEMBERS)


def _trained(prepared: Prepared, members: int) -> Fitted:
    began = time.perf_counter()
    ensemble = train_members(prepared, members)
    seconds = time.perf_counter() - began
    posterior = ensemble.posterior()
    return Fitted(
        lambda inputs: predict_posterior(posterior, prepared, inputs),
        seconds,
        {"epochs": ensemble.epochs, "engine": ensemble.engine},
    )
