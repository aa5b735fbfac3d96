"""The network alone, and deep ensembles of five (Lakshminarayanan et al., 2017)."""

from __future__ import annotations

import time
from collections.abc import Callable

from sbmc import Ensemble
from sbmc_studies.tables.methods.fitted import Fitted, NotSupported
from sbmc_studies.tables.recipe import (
    Prepared,
    predict_posterior,
    train_members,
    train_on_all_rows,
)

MEMBERS = 5


def network(prepared: Prepared) -> Fitted:
    """One network, trained until its loss on the rows set aside no longer falls."""
    return _trained(prepared, 1)


def deep_ensemble(prepared: Prepared) -> Fitted:
    """Five such networks from independent starts, mixed equally; the first is the network."""
    return _trained(prepared, MEMBERS)


def ensemble_on_all_rows(prepared: Prepared) -> Fitted:
    """Five networks trained as those that the regressor's chains begin at, which no rows stop."""
    if prepared.split.is_classification:
        raise NotSupported("the classifier sets rows aside as well")
    return _trained(prepared, MEMBERS, train_on_all_rows)


def _trained(
    prepared: Prepared,
    members: int,
    train: Callable[[Prepared, int], Ensemble] = train_members,
) -> Fitted:
    began = time.perf_counter()
    ensemble = train(prepared, members)
    seconds = time.perf_counter() - began
    posterior = ensemble.posterior()
    return Fitted(
        lambda inputs: predict_posterior(posterior, prepared, inputs),
        seconds,
        {"epochs": ensemble.epochs, "engine": ensemble.engine},
    )
