"""The estimators: their settings, tables, targets and weights, made wrong one by one."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from refusals.odd_values import X, Y
from refusals.subject import Subject, posteriors, sampler

import sbmc
from sbmc.confidence import ConfidenceClassifier
from sbmc.datasets.files import TextTable
from sbmc.estimators import QuantilePredictor, StdPredictor, as_estimator, fit_table
from sbmc.estimators.botorch import SBMCModel

TABLE, LABELS, NUMBERS = X.numpy(), Y.numpy(), X[:, 0].numpy()
SHORT = {
    "hidden_layers": (3,),
    "training_options": {"max_epochs": 1},
    "fit_options": {"s": 0.1, "sampler": sampler(), "particles": 2},
    "random_state": 0,
}
# Words of the functions that the options are handed to.
NAMED = (
    "X",
    "y",
    "max_epochs",
    "sampler",
    "s",
    "particles",
    "model",
    "data",
    "train",
    "prior_variance",
)


def fitting(kind: type, targets: np.ndarray) -> Callable[..., Any]:
    """A function that makes an estimator of the settings that it is given, and fits it."""

    def function(**settings: Any) -> Any:
        return kind(**settings).fit(TABLE, targets)

    function.__signature__ = inspect.signature(kind)  # type: ignore[attr-defined]
    return function


def subjects() -> list[Subject]:
    """Settings and methods of the estimators, with arguments that work."""
    classifier = sbmc.SBMCClassifier(**SHORT).fit(TABLE, LABELS)
    regressor = sbmc.SBMCRegressor(**SHORT).fit(TABLE, NUMBERS)
    quantile = QuantilePredictor(sbmc.SBMCRegressor(**SHORT), 0.5).fit(TABLE, NUMBERS)
    meta = ConfidenceClassifier(hidden=2, max_iter=2).fit(TABLE, LABELS)
    # Those that are fitted to odd tables predict nothing afterwards.
    unfitted = QuantilePredictor(sbmc.SBMCRegressor(**SHORT), 0.5)
    classes, numbers, _, _ = posteriors()
    prefitted, numeric, surrogate = as_estimator(classes), as_estimator(numbers), SBMCModel(numbers)
    table = {"X": TABLE}
    of_numbers = {**table, "y": NUMBERS}
    of_classes = {**table, "y": LABELS}
    names = ["no" if row < 12 else "yes" for row in range(24)]
    cells = TextTable({"x": [str(row / 10) for row in range(24)], "label": names}, "rows.csv")
    small = {"hidden_layers": (2,), "budget": 0.1}
    return [
        Subject(
            "SBMCClassifier",
            fitting(sbmc.SBMCClassifier, LABELS),
            SHORT,
            NAMED,
            public=sbmc.SBMCClassifier,
        ),
        Subject(
            "SBMCRegressor",
            fitting(sbmc.SBMCRegressor, NUMBERS),
            SHORT,
            NAMED,
            public=sbmc.SBMCRegressor,
        ),
        Subject("fit_table", fit_table, {"table": cells, **small}, (*NAMED, "random_state")),
        Subject("SBMCClassifier.fit", sbmc.SBMCClassifier(**SHORT).fit, of_classes, NAMED),
        Subject("SBMCRegressor.fit", sbmc.SBMCRegressor(**SHORT).fit, of_numbers, NAMED),
        *(
            Subject(f"SBMCClassifier.{name}", getattr(classifier, name), table)
            for name in ("predict", "predict_proba", "predict_log_proba", "predictive")
        ),
        *(
            Subject(f"SBMCRegressor.{name}", getattr(regressor, name), table)
            for name in ("predict", "predict_interval", "predictive")
        ),
        Subject("SBMCRegressor.predict_quantile", regressor.predict_quantile, table | {"q": 0.5}),
        Subject("SBMCRegressor.at_quantile", regressor.at_quantile, {"q": 0.5}),
        Subject(
            "QuantilePredictor",
            lambda regressor, q: QuantilePredictor(regressor, q).predict(TABLE),
            {"regressor": regressor, "q": 0.5},
            public=QuantilePredictor,
        ),
        Subject("QuantilePredictor.predict", quantile.predict, table),
        Subject(
            "StdPredictor",
            lambda regressor, part: StdPredictor(regressor, part).predict(TABLE),
            {"regressor": regressor, "part": "total"},
            public=StdPredictor,
        ),
        Subject("StdPredictor.predict", regressor.as_std().predict, table),
        Subject(
            "StdPredictor.fit", StdPredictor(sbmc.SBMCRegressor(**SHORT)).fit, of_numbers, NAMED
        ),
        Subject("as_estimator", as_estimator, {"posterior": classes}),
        *(
            Subject(f"PosteriorClassifier.{name}", getattr(prefitted, name), table)
            for name in ("predict", "predict_proba", "predict_log_proba", "predictive")
        ),
        *(
            Subject(f"PosteriorRegressor.{name}", getattr(numeric, name), table)
            for name in ("predict", "predict_interval")
        ),
        Subject("PosteriorRegressor.as_std", numeric.as_std),
        Subject("SBMCModel", SBMCModel, {"posterior": numbers}),
        Subject("SBMCModel.posterior", surrogate.posterior, {"X": X}),
        Subject("QuantilePredictor.fit", unfitted.fit, of_numbers, NAMED),
        Subject(
            "ConfidenceClassifier",
            fitting(ConfidenceClassifier, LABELS),
            {"hidden": 2, "max_iter": 2},
            public=ConfidenceClassifier,
        ),
        Subject(
            "ConfidenceClassifier.fit", ConfidenceClassifier(hidden=2, max_iter=2).fit, of_classes
        ),
        *(
            Subject(f"ConfidenceClassifier.{name}", getattr(meta, name), table)
            for name in ("predict", "predict_proba")
        ),
    ]
