"""The spider chart: accuracy, calibration and confidence of each method, with 1 for the best."""

from __future__ import annotations

import numpy as np

from sbmc.checks import require
from sbmc.report.charts import SpiderChart
from sbmc.report.figure import Figure
from sbmc.report.limits import Limits
from sbmc_studies.figures.comparison import Comparison

# Metric of a record, as in the paper's protocol; name of the axis; whether more of it is better.
AXES = (
    ("accuracy", "accuracy", True),
    ("nll", "NLL", False),
    ("ece", "calibration\nerror", False),
    ("confidence.default.auc_roc", "AUC-ROC", True),
    ("confidence.optimal_f1.f1", "F1 of\nabstention", True),
    ("confidence.optimal_f1.accuracy", "accuracy of\nanswer or abstain", True),
    ("confidence.aurc.mixed", "area under\nrisk–coverage", False),
    ("ood.epistemic.auroc", "H_ep finds\nout of domain", True),
)
# Paper: each axis is re-normalised "so 1 is best", it does not say how. Here: ratios, because
# stretching each axis from the worst to the best would blow up differences that are mere noise.
NORMALISATION = (
    "Each axis: the value over the best of the settings shown (for NLL, calibration error and "
    "risk the best over the value), so 1 is the best, and outside is better."
)


def relative_to_best(values: np.ndarray, more_is_better: bool) -> np.ndarray:
    """Put values on a scale on which the best has 1.

    Args:
        values: `(methods,)`, not negative.
        more_is_better: whether the largest is the best, or the smallest.

    Returns:
        value / best, or best / value; all in [0, 1].

    Examples:
        >>> relative_to_best(np.array([0.2, 0.4]), more_is_better=False).tolist()
        [1.0, 0.5]
    """
    values = np.asarray(values, dtype=float)
    require(bool((values >= 0).all()), "values", "non-negative numbers", values)
    best = values.max() if more_is_better else values.min()
    upper, lower = (values, best) if more_is_better else (best, values)
    # 0 over 0 is a best value that happens to be 0.
    ratio = np.divide(upper, lower, out=np.ones(len(values)), where=np.asarray(lower) > 0)
    return np.clip(ratio, 0.0, 1.0)


def relative_values(comparison: Comparison) -> np.ndarray:
    """The scale of each axis for each row.

    Args:
        comparison: what to show.

    Returns:
        `(rows, axes)` numbers from 0 to 1.
    """
    columns = [
        relative_to_best(
            np.array([comparison.metric(row, name) for row in comparison.rows]), better
        )
        for name, _, better in AXES
    ]
    return np.stack(columns, axis=1)


def build(comparison: Comparison, limits: Limits) -> list[Figure]:
    """One figure, with a closed line for each method."""
    values = relative_values(comparison).tolist()
    series = [(row.style, line) for row, line in zip(comparison.rows, values, strict=True)]
    means = "; ".join(f"{style.label} {sum(line) / len(line):.2f}" for style, line in series)
    return [
        Figure(
            "Spider plot",
            NORMALISATION,
            SpiderChart(series, [name for _, name, _ in AXES]),
            alt=f"Spider plot of {len(AXES)} measures. Mean over all axes: {means}.",
        )
    ]
