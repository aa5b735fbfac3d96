"""Accuracy of the two-level estimator, which answers or abstains, over all thresholds."""

from __future__ import annotations

from sbmc.report.charts import Curve, Guide, LineChart, Point
from sbmc.report.charts.axis import Axis, nice_range
from sbmc.report.charts.lines import TALL, spread_evenly
from sbmc.report.figure import Figure
from sbmc.report.limits import Limits
from sbmc_studies.figures.comparison import Comparison


def build(comparison: Comparison, limits: Limits) -> list[Figure]:
    """One figure: the mean accuracy at each threshold, and where the F1-optimal threshold is."""
    curves, points = [], []
    for row in comparison.rows:
        thresholds, accuracies = row.mean("two_level.thresholds"), row.mean("two_level.accuracy")
        shown = spread_evenly(len(thresholds), limits.points)
        x, y = ([float(values[i]) for i in shown] for values in (thresholds, accuracies))
        curves.append(Curve(row.style, x, y))
        threshold, accuracy = (
            comparison.metric(row, f"confidence.optimal_f1.{name}")
            for name in ("threshold", "accuracy")
        )
        points.append(Point(row.style, threshold, accuracy))
    low, high = nice_range([value for curve in curves for value in curve.y])
    low, high = max(0.0, low), min(1.0, high)
    optimal = "; ".join(f"{p.style.label} {p.y:.3f} at {p.x:.2f}" for p in points)
    chart = LineChart(
        curves,
        Axis("threshold (0: abstains always, 1: answers always)"),
        Axis("share of right decisions", low, high),
        guides=[Guide((0.5, low), (0.5, high), "default threshold, 0.5")],
        points=points,
        height=TALL,
    )
    return [
        Figure(
            "Accuracy of “answer or abstain” over thresholds",
            "Right decisions: right answers, and abstentions where the answer would be wrong. "
            "Markers stand at the threshold that is best by F1.",
            chart,
            alt=f"Curves over thresholds. At the F1-optimal threshold: {optimal}.",
        )
    ]
