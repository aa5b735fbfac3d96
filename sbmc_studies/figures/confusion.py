"""Confusion rates of "answer or abstain", at the default and at the F1-optimal threshold."""

from __future__ import annotations

import numpy as np

from sbmc.report.charts import HeatMap
from sbmc.report.figure import Figure
from sbmc.report.limits import Limits
from sbmc_studies.figures.comparison import Comparison, MethodResult

RULES = {"default": "threshold 0.5", "optimal_f1": "F1-optimal threshold"}
COLUMNS = ("answered", "abstained", "answered", "abstained")
ABOVE = (("right", 2), ("wrong or OOD", 2))


def confusion_rates(row: MethodResult, rule: str) -> tuple[np.ndarray, np.ndarray]:
    """Rates within each row of the counts, averaged over seeds.

    Args:
        row: with the counts of its seeds.
        rule: `"default"` or `"optimal_f1"`.

    Returns:
        Means `(2, 2)`, of right and of wrong inputs the shares answered and abstained from, and
        their standard errors by the paper's formula; NaN for a row without inputs.
    """
    counts = row.stack(f"confusion.{rule}").astype(float)
    totals = counts.sum(axis=2, keepdims=True)
    rates = np.where(totals > 0, counts / np.maximum(totals, 1), np.nan)
    return rates.mean(axis=0), rates.std(axis=0) / np.sqrt(len(rates))


def build(comparison: Comparison, limits: Limits) -> list[Figure]:
    """A figure for each threshold."""
    return [_figure(comparison, rule) for rule in RULES]


def _figure(comparison: Comparison, rule: str) -> Figure:
    rows, findings = [], []
    for row in comparison.rows:
        means, errors = (each.ravel().tolist() for each in confusion_rates(row, rule))
        cells = [
            (rate, f"{rate:.2f}" + (f" ±{error:.2f}" if len(row.arrays) > 1 else ""))
            for rate, error in zip(means, errors, strict=True)
        ]
        rows.append((row.style.label, cells))
        decisions = f"answers {means[0]:.0%} of right, abstains from {means[3]:.0%} of bad"
        findings.append(f"{row.style.label} {decisions}")
    title = f"Confusion rates, {RULES[rule]}"
    several = any(len(row.arrays) > 1 for row in comparison.rows)
    return Figure(
        title,
        f"Shares within each pair of columns, mean over seeds{' ± standard error' * several}.",
        HeatMap(rows, COLUMNS, above=ABOVE),
        alt=f"{title}: {'; '.join(findings)}.",
    )
