"""What regressors can be asked for: means, standard deviations, quantiles and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from sbmc.checks import Phrase, is_number, require, require_choice, require_flag
from sbmc.estimators.quantile import QuantilePredictor
from sbmc.estimators.std import PARTS, StdPredictor
from sbmc.prediction.predictive import checked_level
from sbmc.prediction.regression import RegressionPrediction
from sbmc.storage.arrays import as_floats


class Numbers(Protocol):
    """What the methods below need of a regressor."""

    def predictive(self, X: Any) -> RegressionPrediction:
        """The predictive distribution of each row."""

    def predict_quantile(self, X: Any, q: float | Sequence[float]) -> np.ndarray:
        """Quantiles of each row."""

    def _in_shape(self, values: Tensor) -> np.ndarray:
        """Numbers of outputs, `(rows, targets)`, in the shape that `predict` gives."""


class NumberPredictions:
    """Methods of a regressor with a predictive distribution for each row of a table."""

    def predict(
        self: Numbers, X: Any, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The mean of the predictive distribution.

        Args:
            X: a table `(rows, columns)`.
            return_std: whether to return standard deviations too: of the target itself, with its
                noise and with what the particles disagree about.

        Returns:
            `(rows,)`, or `(rows, targets)` if `fit` had such targets; or two of these.
        """
        require_flag("return_std", return_std)
        prediction = self.predictive(X)
        mean = self._in_shape(prediction.mean)
        return (mean, self._in_shape(prediction.variance.sqrt())) if return_std else mean

    def predict_quantile(self: Numbers, X: Any, q: float | Sequence[float]) -> np.ndarray:
        """Quantiles of each target, of the mixture and noise included.

        Args:
            X: a table `(rows, columns)`.
            q: a level between 0 and 1, or several.

        Returns:
            In the shape of `predict`; with several levels, these are a last axis.
        """
        one = is_number(q)
        given = as_floats(q, "q", numbers=True)
        shape = Phrase(f"shape {given.shape}")
        require(one or (given.ndim == 1 and given.size > 0), "q", "one level, or several", shape)
        levels = [checked_level(float(level), "q") for level in given.reshape(-1)]
        prediction = self.predictive(X)
        if one:
            return self._in_shape(prediction.quantile(levels[0]))
        found = [self._in_shape(each) for each in prediction.quantile(levels)]
        return np.stack(found, axis=-1)

    def predict_interval(self: Numbers, X: Any, level: float = 0.9) -> np.ndarray:
        """The central interval of each target, noise included.

        Args:
            X: a table `(rows, columns)`.
            level: the probability inside.

        Returns:
            `(rows, 2)`: the lower and the upper end; `(rows, targets, 2)` if `fit` had such
            targets.
        """
        level = checked_level(level)
        return self.predict_quantile(X, [(1 - level) / 2, (1 + level) / 2])

    def at_quantile(self, q: float) -> QuantilePredictor:
        """This fitted model as one whose `predict` gives a quantile, as MAPIE wants it.

        Args:
            q: the level, between 0 and 1.

        Returns:
            A regressor that shares the posterior.
        """
        return QuantilePredictor(self, checked_level(q, "q"))

    def as_std(self, part: str = "total") -> StdPredictor:
        """This fitted model as one whose `predict` gives a standard deviation, as MAPIE wants it.

        Args:
            part: `"total"`, `"aleatoric"` or `"epistemic"`.

        Returns:
            A regressor that shares the posterior.
        """
        require_choice("part", part, PARTS)
        return StdPredictor(self, part)
