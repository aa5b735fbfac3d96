"""The methods that are compared, one kind a file; all see the same rows of a split."""

from __future__ import annotations

from collections.abc import Callable

from sbmc_studies.tables.methods.bayesian_ensembles import bde
from sbmc_studies.tables.methods.boosting import catboost, xgboost
from sbmc_studies.tables.methods.dropout import mc_dropout
from sbmc_studies.tables.methods.fitted import Fitted, NotSupported
from sbmc_studies.tables.methods.laplace import laplace
from sbmc_studies.tables.methods.networks import deep_ensemble, ensemble_on_all_rows, network
from sbmc_studies.tables.methods.ours import default
from sbmc_studies.tables.recipe import Prepared

DEFAULT, ENSEMBLE, ON_ALL_ROWS = "sbmc", "ensemble-5", "ensemble-5-all-rows"
METHODS: dict[str, Callable[[Prepared], Fitted]] = {
    DEFAULT: default,
    "network": network,
    ENSEMBLE: deep_ensemble,
    ON_ALL_ROWS: ensemble_on_all_rows,
    "mc-dropout": mc_dropout,
    "laplace": laplace,
    "catboost": catboost,
    "xgboost": xgboost,
    "bde": bde,
}
# Methods that take so long that they are run on some splits alone: from a set to its splits. Their
# published rows stand for the others.
ONLY_ON: dict[str, dict[str, tuple[int, ...]]] = {"bde": {"airfoil": (0,)}}


def runs_on(method: str, table_set: str, split: int) -> bool:
    """Whether a method is run on a split."""
    return method not in ONLY_ON or split in ONLY_ON[method].get(table_set, ())


# A method has to be better than both to be better than our own ensemble.
ENSEMBLES = (ENSEMBLE, ON_ALL_ROWS)

__all__ = ["DEFAULT", "ENSEMBLE", "ENSEMBLES", "METHODS", "Fitted", "NotSupported", "runs_on"]
