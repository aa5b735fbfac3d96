"""How good predictions are. Every function takes a prediction, or plain arrays in its place."""

from sbmc.prediction.metrics.classification import (
    accuracy,
    brier,
    classification_metrics,
    ece,
    nll,
    ood_metrics,
)
from sbmc.prediction.metrics.multilabel import multilabel_metrics
from sbmc.prediction.metrics.regression import (
    crps,
    gaussian_nll,
    interval_coverage,
    interval_width,
    pit,
    regression_metrics,
    rmse,
)
from sbmc.prediction.metrics.runs import mean_and_error, standard_error
from sbmc.prediction.metrics.selective import RiskCoverage, aurc, risk_curve

__all__ = [
    "RiskCoverage",
    "accuracy",
    "aurc",
    "brier",
    "classification_metrics",
    "crps",
    "ece",
    "gaussian_nll",
    "interval_coverage",
    "interval_width",
    "mean_and_error",
    "multilabel_metrics",
    "nll",
    "ood_metrics",
    "pit",
    "regression_metrics",
    "risk_curve",
    "rmse",
    "standard_error",
]
