"""Statistical checks with a stated false-alarm rate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy import stats
from torch import Tensor


def mean_and_covariance_fit(
    samples: Tensor, mean: Tensor, covariance: Tensor, false_alarm: float = 1e-4
) -> bool:
    """Whether independent `samples` `(count, dim)` may be from N(mean, covariance).

    Two tests on the whitened samples, each at half the rate: the mean by its chi-square statistic,
    and the covariance by n/2 times the squared distance of the sample covariance from the identity,
    which is chi-square with dim (dim + 1) / 2 degrees of freedom for large n.
    """
    count, dim = samples.shape
    factor = torch.linalg.cholesky(covariance)
    white = torch.linalg.solve_triangular(factor, (samples - mean).T, upper=False).T
    mean_statistic = count * float(white.mean(0).square().sum())
    spread = white.T @ white / count - torch.eye(dim).to(white)
    covariance_statistic = count / 2 * float(spread.square().sum())
    limits = [stats.chi2.ppf(1 - false_alarm / 2, k) for k in (dim, dim * (dim + 1) // 2)]
    return mean_statistic < limits[0] and covariance_statistic < limits[1]


def distribution_fits(
    samples: Tensor, cdf: Callable[[np.ndarray], np.ndarray], false_alarm: float = 1e-4
) -> bool:
    """Whether independent `samples` `(count,)` may have this distribution (Kolmogorov-Smirnov)."""
    return bool(stats.kstest(samples.numpy(), cdf).pvalue > false_alarm)


def averages_fit(samples: Tensor, expected: Tensor, false_alarm: float = 1e-4) -> bool:
    """Whether independent rows of `samples` `(count, k)` may have the means `expected` `(k,)`.

    Student's t for each column, the rate shared out among them; a column that does not vary must
    be what is expected of it.
    """
    samples, expected = samples.double(), expected.double()
    count, columns = samples.shape
    error = samples.std(0) / count**0.5
    limit = stats.t.ppf(1 - false_alarm / columns / 2, count - 1)
    return bool(((samples.mean(0) - expected).abs() <= limit * error + 1e-9).all())
