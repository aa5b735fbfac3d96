"""Estimators for tables, by the rules of scikit-learn."""

from sbmc.estimators.classifier import SBMCClassifier
from sbmc.estimators.quantile import QuantilePredictor
from sbmc.estimators.regressor import SBMCRegressor

__all__ = ["QuantilePredictor", "SBMCClassifier", "SBMCRegressor"]
