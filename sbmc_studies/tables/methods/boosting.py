"""Boosted trees: CatBoost with its own uncertainty, and XGBoost with a constant variance.

Both stop when the loss on the rows set aside has not fallen for a while. They take the columns as
they are. For numbers, CatBoost learns a mean and a variance (`RMSEWithUncertainty`). XGBoost learns
a mean; its prediction is a Gaussian whose variance is the mean squared error on the rows set aside.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Normal

from sbmc.prediction.predictive import PredictiveMixture
from sbmc_studies.tables.methods.fitted import Fitted, load_package
from sbmc_studies.tables.recipe import Prepared

TREES, RATE, PATIENCE = 5_000, 0.05, 100
THREADS = 2
SMALLEST_VARIANCE = 1e-12


def catboost(prepared: Prepared) -> Fitted:
    """CatBoost with mean and variance, or with classes."""
    package = load_package("catboost", "catboost")
    settings: dict[str, Any] = {
        "iterations": TREES,
        "learning_rate": RATE,
        "random_seed": prepared.split.number,
        "thread_count": THREADS,
        "allow_writing_files": False,
        "verbose": False,
    }
    numbers = not prepared.split.is_classification
    if numbers:
        model = package.CatBoostRegressor(loss_function="RMSEWithUncertainty", **settings)
    else:
        model = package.CatBoostClassifier(loss_function="MultiClass", **settings)
    began = time.perf_counter()
    aside = prepared.raw(prepared.aside_rows)
    model.fit(*prepared.raw(prepared.train_rows), eval_set=aside, early_stopping_rounds=PATIENCE)
    seconds = time.perf_counter() - began

    def predict(inputs: np.ndarray) -> PredictiveMixture | Tensor:
        if not numbers:
            return _all_classes(model.predict_proba(inputs), model.classes_, prepared)
        mean, variance = model.predict(inputs, prediction_type="RMSEWithUncertainty").T
        return _gaussian(mean, variance)

    return Fitted(predict, seconds, {"trees": int(model.tree_count_)})


def xgboost(prepared: Prepared) -> Fitted:
    """XGBoost with a constant variance, or with classes."""
    package = load_package("xgboost", "xgboost-cpu")
    numbers = not prepared.split.is_classification
    kind = package.XGBRegressor if numbers else package.XGBClassifier
    model = kind(
        n_estimators=TREES,
        learning_rate=RATE,
        early_stopping_rounds=PATIENCE,
        random_state=prepared.split.number,
        n_jobs=THREADS,
    )
    began = time.perf_counter()
    inputs, targets = prepared.raw(prepared.aside_rows)
    model.fit(*prepared.raw(prepared.train_rows), eval_set=[(inputs, targets)], verbose=False)
    variance = float(np.square(model.predict(inputs) - targets).mean()) if numbers else 0.0
    seconds = time.perf_counter() - began

    def predict(test: np.ndarray) -> PredictiveMixture | Tensor:
        if not numbers:
            return _all_classes(model.predict_proba(test), model.classes_, prepared)
        mean = model.predict(test)
        return _gaussian(mean, np.full(len(mean), variance))

    return Fitted(predict, seconds, {"trees": int(model.best_iteration) + 1})


def _gaussian(mean: np.ndarray, variance: np.ndarray) -> PredictiveMixture:
    means = torch.from_numpy(np.asarray(mean, np.float64))[None]
    scales = torch.from_numpy(np.maximum(variance, SMALLEST_VARIANCE).astype(np.float64)).sqrt()
    return PredictiveMixture(Normal(means, scales[None]), torch.ones(1))


def _all_classes(found: np.ndarray, classes: Any, prepared: Prepared) -> Tensor:
    """Probabilities of all classes of the set; one that was not trained on has none."""
    probabilities = np.zeros((len(found), prepared.split.classes))
    probabilities[:, np.asarray(classes).astype(int).ravel()] = found
    return torch.from_numpy(probabilities)
