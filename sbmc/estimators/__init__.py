"""Estimators for tables, by the rules of scikit-learn, and posteriors as estimators."""

from sbmc.estimators.classifier import SBMCClassifier
from sbmc.estimators.prefitted import PosteriorClassifier, PosteriorRegressor, as_estimator
from sbmc.estimators.quantile import QuantilePredictor
from sbmc.estimators.regressor import SBMCRegressor
from sbmc.estimators.std import StdPredictor
from sbmc.estimators.table import fit_table

__all__ = [
    "PosteriorClassifier",
    "PosteriorRegressor",
    "QuantilePredictor",
    "SBMCClassifier",
    "SBMCRegressor",
    "StdPredictor",
    "as_estimator",
    "fit_table",
]
