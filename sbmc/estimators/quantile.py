"""A fitted regressor, seen as one that predicts a quantile."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sbmc.checks import require


class QuantilePredictor(RegressorMixin, BaseEstimator):
    """A regressor whose `predict` gives a quantile of the predictive distribution.

    One posterior has all quantiles, so that several of these share one fit. Conformalised quantile
    regression takes three of them.

    Args:
        regressor: an `SBMCRegressor`, which may be fitted already.
        q: the level, between 0 and 1.

    Examples:
        >>> from sbmc.estimators import SBMCRegressor
        >>> X = np.linspace(-1, 1, 40)[:, None]
        >>> model = SBMCRegressor((8,), budget=1, random_state=0).fit(X, X[:, 0])
        >>> bool((model.at_quantile(0.05).predict(X) < model.at_quantile(0.95).predict(X)).all())
        True
    """

    def __init__(self, regressor: Any, q: float) -> None:
        self.regressor = regressor
        self.q = q

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the regressor."""
        self._require_regressor()
        self.regressor.fit(X, y, sample_weight=sample_weight)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The quantile of each target, in the shape of the regressor's `predict`."""
        self._require_regressor()
        check_is_fitted(self)
        return self.regressor.predict_quantile(X, self.q)

    def _require_regressor(self) -> None:
        good = hasattr(self.regressor, "predict_quantile")
        require(good, "regressor", "an SBMCRegressor", self.regressor)

    @property
    def n_features_in_(self) -> int:
        """The number of columns, known when the regressor is fitted."""
        return self.regressor.n_features_in_

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the regressor is."""
        return hasattr(self.regressor, "posterior_")
