"""The ROC curve of "wrong or out of domain"."""

from __future__ import annotations

import numpy as np

from sbmc.report.charts import Curve, Guide, LineChart
from sbmc.report.charts.axis import Axis
from sbmc.report.charts.lines import TALL, spread_evenly
from sbmc.report.figure import Figure
from sbmc.report.limits import Limits
from sbmc_studies.figures.comparison import Comparison, MethodResult

AREA = "confidence.default.auc_roc"
FALSE_RATES = np.linspace(0.0, 1.0, 201)


def mean_roc(row: MethodResult) -> np.ndarray:
    """Average the curves of all seeds vertically.

    Args:
        row: with the curves of its seeds.

    Returns:
        The mean true positive rate at each of `FALSE_RATES`. At 0 it is the upper end of the step
        that the curves begin with.
    """
    curves = [
        np.interp(FALSE_RATES, each["roc.false_positive_rate"], each["roc.true_positive_rate"])
        for each in row.arrays
    ]
    return np.mean(curves, axis=0)


def build(comparison: Comparison, limits: Limits) -> list[Figure]:
    """One figure, with the areas under the curves from the records."""
    shown = spread_evenly(len(FALSE_RATES), limits.points)
    x = [0.0, *(float(FALSE_RATES[i]) for i in shown)]
    curves = []
    for row in comparison.rows:
        rates = mean_roc(row)
        note = f"AUC {comparison.metric(row, AREA):.3f}"
        if len(row.arrays) > 1:
            note += f" ± {comparison.error(row, AREA):.3f}"
        curves.append(Curve(row.style, x, [0.0, *(float(rates[i]) for i in shown)], note=note))
    areas = "; ".join(f"{curve.style.label} {curve.note}" for curve in curves)
    chart = LineChart(
        curves,
        Axis("abstains though the answer is right"),
        Axis("abstains where it is wrong or out of domain"),
        guides=[Guide((0, 0), (1, 1), "by chance")],
        height=TALL,
    )
    return [
        Figure(
            "ROC of “wrong or out of domain”",
            "How many bad answers are caught, against how many good ones are lost. Up and to the "
            "left is better.",
            chart,
            alt=f"ROC curves above the diagonal. Areas under them: {areas}.",
        )
    ]
