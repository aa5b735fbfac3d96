"""Units of the columns of a table, in which networks see them."""

from __future__ import annotations

import numpy as np
from sklearn.preprocessing import StandardScaler


def column_scaler(X: np.ndarray, weights: np.ndarray | None = None) -> StandardScaler:
    """Mean and standard deviation of each column; half of the range where it has two values.

    A column of 0 and 1 in which 1 is rare has a small standard deviation. In units of it the few
    rows with a 1 would be far away from all others (15 units for one row of 240), where a network
    that was trained on so few of them may say anything: draws of its noise, which is the
    exponential of an output, had variances of 10¹¹. In half ranges both values are at most two
    units apart, and a column with as many of one as of the other is as before.

    Args:
        X: `(rows, columns)`.
        weights: of the rows, or None.

    Returns:
        The fitted scaler.

    Examples:
        >>> rare = np.array([[0.0], [0.0], [0.0], [1.0]])
        >>> column_scaler(rare).transform(rare).flatten().tolist()
        [-0.5, -0.5, -0.5, 1.5]
    """
    scaler = StandardScaler().fit(X, sample_weight=weights)
    low, high = X.min(0), X.max(0)
    two_values = ((low == X) | (high == X)).all(0) & (low < high)
    scaler.scale_ = np.where(two_values, (high - low) / 2, scaler.scale_)
    return scaler
