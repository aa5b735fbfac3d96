"""The ROC curve of "incorrect or out of domain", several methods in one picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sbmc_studies.figures.looks import legend_below, looks, tidy
from sbmc_studies.figures.measured import Measured, Measurements
from sbmc_studies.figures.style import GREY, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AREA = "confidence.default.auc_roc"
FALSE_RATES = np.linspace(0.0, 1.0, 201)


def mean_roc(row: Measured) -> tuple[np.ndarray, np.ndarray]:
    """Average the curves of all seeds vertically: the mean true rate at each false rate.

    Args:
        row: with the curves of its seeds.

    Returns:
        False and true positive rates, from (0, 0) to (1, 1).
    """
    curves = [
        np.interp(FALSE_RATES, each["roc.false_positive_rate"], each["roc.true_positive_rate"])
        for each in row.arrays
    ]
    # At false rate 0 the mean curve goes straight up, as each of them does.
    return np.r_[0.0, FALSE_RATES], np.r_[0.0, np.mean(curves, axis=0)]


def draw(measurements: Measurements) -> Figure:
    """Draw the curves, with the areas under them from the records.

    Args:
        measurements: what to show.

    Returns:
        A matplotlib figure.
    """
    figure = new_figure(8.2, 9.0)
    figure.suptitle(measurements.title("ROC of “incorrect or out of domain”"), fontsize=12)
    axes = figure.subplots()
    for row, look in zip(measurements.rows, looks(measurements), strict=True):
        label = f"{row.label}: AUC {measurements.metric(row, AREA):.3f}"
        if len(row.arrays) > 1:
            label += f" ± {measurements.error(row, AREA):.3f}"
        axes.plot(*mean_roc(row), color=look.colour, linestyle=look.dashes, label=label)
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=":", label="by chance")
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set_xlabel("abstains though the answer is right")
    axes.set_ylabel("abstains where the answer is wrong or out of domain")
    tidy(axes)
    legend_below(figure, axes, columns=2)
    return figure
