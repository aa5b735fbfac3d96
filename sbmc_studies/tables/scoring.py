"""What is measured of a method on the test rows of one split."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from sbmc.prediction.metrics import accuracy, brier, gaussian_nll, nll, rmse

LEVELS = (0.9, 0.95)
# Columns, and how a page names them. More is better for accuracy alone.
REGRESSION_COLUMNS = {
    "nll": "NLL",
    "nll_moments": "NLL, moments",
    "rmse": "RMSE",
    "crps": "CRPS",
    "cover_90": "90 % covers",
    "width_90": "width",
    "cover_95": "95 % covers",
    "width_95": "width",
}
CLASSIFICATION_COLUMNS = {"nll": "NLL", "accuracy": "accuracy", "brier": "Brier"}


class PredictedNumbers(Protocol):
    """A predictive distribution of one number for each row: a mixture, or a prediction of ours."""

    @property
    def mean(self) -> Tensor:
        """Of the distribution, `(rows,)` or `(rows, 1)`, as are all others."""

    @property
    def variance(self) -> Tensor:
        """Of the distribution."""

    def log_prob(self, targets: Any) -> Tensor:
        """The log density at the targets, `(rows,)`."""

    def crps(self, targets: Any) -> Tensor:
        """The continuous ranked probability score."""

    def quantile(self, level: float) -> Tensor:
        """The quantile of a level."""


def score_regression(predicted: PredictedNumbers, targets: np.ndarray) -> dict[str, float]:
    """All columns of a regression table.

    Args:
        predicted: for the test rows, in the units of the targets.
        targets: `(rows,)`.

    Returns:
        `nll`, the mean of −log Σ_i w_i p_i(y|x); `nll_moments`, the same of one Gaussian with the
        mixture's mean and variance; `rmse`; `crps`; and of the central 90 and 95 % intervals of
        the mixture, the share of targets that they cover and their mean width.

    Examples:
        >>> from torch.distributions import Normal
        >>> from sbmc.prediction.predictive import PredictiveMixture
        >>> standard = PredictiveMixture(Normal(torch.zeros(1, 2), torch.ones(1, 2)), torch.ones(1))
        >>> scores = score_regression(standard, np.array([0.0, 1.8]))
        >>> scores["cover_90"], scores["cover_95"], round(scores["width_95"], 2)
        (0.5, 1.0, 3.92)
    """
    values = torch.as_tensor(targets, dtype=torch.float64)
    mean, variance = predicted.mean.flatten(), predicted.variance.flatten()
    columns = {
        "nll": -float(predicted.log_prob(values).mean()),
        "nll_moments": gaussian_nll(mean, variance, values),
        "rmse": rmse(mean, values),
        "crps": float(predicted.crps(values).mean()),
    }
    for level in LEVELS:
        lower, upper = (predicted.quantile((1 + sign * level) / 2).flatten() for sign in (-1, 1))
        inside = (values >= lower) & (values <= upper)
        columns[f"cover_{100 * level:.0f}"] = float(inside.double().mean())
        columns[f"width_{100 * level:.0f}"] = float((upper - lower).mean())
    return columns


def score_classification(probabilities: Tensor, labels: np.ndarray) -> dict[str, float]:
    """All columns of a classification table.

    Args:
        probabilities: `(rows, classes)`.
        labels: `(rows,)`.

    Returns:
        `nll`, `accuracy` and `brier`.

    Examples:
        >>> scores = score_classification(torch.tensor([[0.8, 0.2], [0.5, 0.5]]), np.array([0, 1]))
        >>> round(scores["nll"], 3), round(scores["brier"], 3)
        (0.458, 0.29)
    """
    truth = torch.as_tensor(labels)
    return {
        "nll": nll(probabilities, truth),
        "accuracy": accuracy(probabilities, truth),
        "brier": brier(probabilities, truth),
    }
