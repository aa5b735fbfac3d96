"""Estimators for tables, by the rules of scikit-learn."""

from sbmc.estimators.classifier import SBMCClassifier
from sbmc.estimators.quantile import QuantilePredictor
from sbmc.estimators.regressor import SBMCRegressor
from sbmc.estimators.table import fit_table

__all__ = ["QuantilePredictor", "SBMCClassifier", "SBMCRegressor", "fit_table"]
