"""A fitted regressor, seen as one that predicts how unsure it is."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sbmc.checks import require, require_choice

PARTS = ("total", "aleatoric", "epistemic")


class StdPredictor(RegressorMixin, BaseEstimator):
    """A regressor whose `predict` gives the standard deviation of the predictive distribution.

    MAPIE's `ResidualNormalisedScore` takes it: conformal intervals are then wide where the
    posterior is unsure.

    Args:
        regressor: a fitted `SBMCRegressor`, or a posterior as an estimator (`sbmc.as_estimator`).
        part: `"total"`, `"aleatoric"` (the noise) or `"epistemic"` (the particles' disagreement).

    Examples:
        >>> from sbmc.estimators import SBMCRegressor
        >>> X = np.linspace(-1, 1, 40)[:, None]
        >>> model = SBMCRegressor((8,), budget=1, random_state=0).fit(X, X[:, 0])
        >>> bool((model.as_std("epistemic").predict(X) < model.as_std().predict(X)).all())
        True
    """

    def __init__(self, regressor: Any, part: str = "total") -> None:
        self.regressor = regressor
        self.part = part

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the regressor."""
        self._require_regressor()
        self.regressor.fit(X, y, sample_weight=sample_weight)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The standard deviation of each target, in the shape of the regressor's `predict`."""
        self._require_regressor()
        require_choice("part", self.part, PARTS)
        check_is_fitted(self)
        variance = getattr(self.regressor.predictive(X), self.part)
        return self.regressor._in_shape(variance.sqrt())

    def _require_regressor(self) -> None:
        good = hasattr(self.regressor, "predictive") and hasattr(self.regressor, "_in_shape")
        require(good, "regressor", "an SBMCRegressor", self.regressor)

    @property
    def n_features_in_(self) -> int:
        """The number of columns, known when the regressor is fitted."""
        return self.regressor.n_features_in_

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the regressor is."""
        return hasattr(self.regressor, "posterior_")
