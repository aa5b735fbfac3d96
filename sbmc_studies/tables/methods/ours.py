"""Our own estimators, with no setting but those that the protocol prescribes."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import sbmc
from sbmc_studies.tables.methods.fitted import Fitted
from sbmc_studies.tables.recipe import Prepared


def default(prepared: Prepared) -> Fitted:
    """`SBMCRegressor()` or `SBMCClassifier()` on the training rows of the split."""
    split, given = prepared.split, prepared.split.table_set
    prescribed = {
        "hidden_layers": given.hidden,
        "likelihood": given.likelihood,
        "budget": given.budget,
    }
    settings: dict[str, Any] = {
        name: value for name, value in prescribed.items() if value is not None
    }
    kind = sbmc.SBMCClassifier if split.is_classification else sbmc.SBMCRegressor
    model = kind(**settings, random_state=split.number)
    began = time.perf_counter()
    with warnings.catch_warnings():
        # The verdict is in the record.
        warnings.simplefilter("ignore", sbmc.HealthWarning)
        model.fit(split.train_inputs, split.train_targets)
    seconds = time.perf_counter() - began
    posterior = model.posterior_
    about: dict[str, Any] = {"ok": posterior.health.ok, "epochs": model.n_epochs_}
    if posterior.mixture is not None:
        about["mixture"] = {each.name: each.weight for each in posterior.mixture.members}

    def predict(inputs: np.ndarray) -> Any:
        prediction: Any = model.predictive(inputs)
        return prediction.probs if split.is_classification else prediction

    return Fitted(predict, seconds, about)
