"""Risk against coverage: how many answers are wrong, as more inputs are answered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sbmc.report.charts import Curve, LineChart
from sbmc.report.charts.axis import Axis, nice_range
from sbmc.report.figure import Figure
from sbmc.report.limits import Limits
from sbmc_studies.figures.comparison import Comparison, MethodResult

KINDS = {"in_domain": "in-domain inputs", "mixed": "half of the inputs out of domain"}


def mean_risk(row: MethodResult, kind: str, coverages: Sequence[float]) -> list[float]:
    """The risk at some coverages, averaged over the curves of all seeds."""
    curves = [
        np.interp(
            coverages,
            each[f"risk_coverage.{kind}.coverage"],
            each[f"risk_coverage.{kind}.risk"],
        )
        for each in row.arrays
    ]
    return np.mean(curves, axis=0).tolist()


def build(comparison: Comparison, limits: Limits) -> list[Figure]:
    """A figure of in-domain inputs and one of the mix, with the areas from the records."""
    return [_figure(comparison, limits, kind) for kind in KINDS]


def _figure(comparison: Comparison, limits: Limits, kind: str) -> Figure:
    # The curves begin where all seeds of all methods have a value.
    begin = max(
        float(each[f"risk_coverage.{kind}.coverage"][0])
        for row in comparison.rows
        for each in row.arrays
    )
    coverages = np.linspace(begin, 1.0, limits.points).tolist()
    curves = []
    for row in comparison.rows:
        area = 100 * comparison.metric(row, f"confidence.aurc.{kind}")
        note = f"AURC {area:.2f}\u00a0%"
        curves.append(Curve(row.style, coverages, mean_risk(row, kind, coverages), note=note))
    _, high = nice_range([value for curve in curves for value in curve.y], zero=True)
    areas = "; ".join(f"{curve.style.label} {curve.note}" for curve in curves)
    return Figure(
        f"Risk and coverage, {KINDS[kind]}",
        "Share of answers that are wrong, as more inputs are answered, the surest first.",
        LineChart(
            curves,
            Axis("coverage: share of inputs answered"),
            Axis("risk: share of wrong answers", 0.0, min(1.0, high), percent=True),
        ),
        alt=f"Curves that rise with coverage. Areas under them: {areas}.",
    )
