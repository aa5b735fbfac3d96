"""Accuracy of the two-level estimator, answer or abstain, over all thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbmc_studies.figures.looks import legend_below, looks, tidy
from sbmc_studies.figures.measured import Measurements
from sbmc_studies.figures.style import GREY, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(measurements: Measurements) -> Figure:
    """Draw the mean accuracy at each threshold, and where the F1-optimal threshold falls.

    Args:
        measurements: what to show.

    Returns:
        A matplotlib figure. Markers stand at the mean over seeds of the F1-optimal threshold and
        of the accuracy that it has on the test set.
    """
    figure = new_figure(9.0, 6.4)
    words = "accuracy of “answer or abstain” over thresholds"
    figure.suptitle(measurements.title(words), fontsize=12)
    axes = figure.subplots()
    axes.axvline(0.5, color=GREY, linewidth=0.8, linestyle=":", label="default threshold")
    for row, look in zip(measurements.rows, looks(measurements), strict=True):
        axes.plot(
            row.mean("two_level.thresholds"),
            row.mean("two_level.accuracy"),
            color=look.colour,
            linestyle=look.dashes,
            label=row.label,
        )
        axes.plot(
            [measurements.metric(row, "confidence.optimal_f1.threshold")],
            [measurements.metric(row, "confidence.optimal_f1.accuracy")],
            color=look.colour,
            marker=look.marker,
            linestyle="none",
        )
    axes.plot([], [], color=GREY, marker="o", linestyle="none", label="F1-optimal threshold")
    axes.set_xlim(0, 1)
    axes.set_xlabel("threshold of the score (0: abstains always, 1: answers always)")
    axes.set_ylabel("right decisions: right answers, and\nabstentions where it would be wrong")
    tidy(axes)
    legend_below(figure, axes)
    return figure
