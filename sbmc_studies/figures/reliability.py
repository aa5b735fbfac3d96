"""Reliability diagrams: of the model's own probability, and of the meta-classifier's score."""

from __future__ import annotations

import numpy as np

from sbmc.report.charts import Curve, Guide, LineChart
from sbmc.report.charts.axis import Axis
from sbmc.report.figure import Figure
from sbmc.report.limits import Limits
from sbmc_studies.figures.comparison import Comparison, MethodResult

# Title, question, and what the x axis shows.
KINDS = {
    "model": (
        "Reliability of the model’s own probability",
        "In domain: is the answer right?",
        "largest probability of the model",
    ),
    "score": (
        "Reliability of the meta-classifier’s score",
        "Mixed: is it wrong or out of domain?",
        "score of the meta-classifier",
    ),
}
# A frequency from fewer examples, over all seeds, would be noise.
MIN_COUNT = 10


def pooled_bins(row: MethodResult, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Take the bins of all seeds together, as if their examples were in one list.

    Args:
        row: with the bins of its seeds.
        kind: `"model"` or `"score"`.

    Returns:
        Mean probability and frequency of each bin that has `MIN_COUNT` examples at least.
    """
    counts = row.stack(f"reliability.{kind}.count")
    total = counts.sum(axis=0)
    full = total >= MIN_COUNT

    def mean(name: str) -> np.ndarray:
        values = np.nan_to_num(row.stack(f"reliability.{kind}.{name}"))
        sums = np.where(counts > 0, values * counts, 0.0).sum(axis=0)
        return sums[full] / total[full]

    return mean("probability"), mean("frequency")


def build(comparison: Comparison, limits: Limits) -> list[Figure]:
    """Both diagrams; on the diagonal, things happen as often as they are said to."""
    return [_figure(comparison, kind) for kind in KINDS]


def _figure(comparison: Comparison, kind: str) -> Figure:
    title, question, score = KINDS[kind]
    curves, farthest = [], []
    for row in comparison.rows:
        x, y = (values.tolist() for values in pooled_bins(row, kind))
        curves.append(Curve(row.style, x, y, marked=True))
        if x:
            said, happened = max(zip(x, y, strict=True), key=lambda pair: abs(pair[0] - pair[1]))
            farthest.append(f"{row.style.label}: {happened:.2f} where {said:.2f} is said")
    return Figure(
        title,
        f"{question} Bins have at least {MIN_COUNT} examples.",
        LineChart(
            curves,
            Axis(score),
            Axis("how often it is so"),
            guides=[Guide((0, 0), (1, 1), "calibrated")],
        ),
        alt=f"Curves beside the diagonal. {question} Farthest from it: {'; '.join(farthest)}.",
    )
