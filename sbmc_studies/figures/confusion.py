"""Confusion-rate matrices of "answer or abstain", at the default and the F1-optimal threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sbmc_studies.figures.measured import Measured, Measurements
from sbmc_studies.figures.style import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RULES = {"default": "threshold 0.5", "optimal_f1": "F1-optimal\nthreshold"}
# One hue from light to dark: read alike by all kinds of colour vision, and in grey.
COLOURS = "Blues"


def confusion_rates(row: Measured, rule: str) -> tuple[np.ndarray, np.ndarray]:
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


def draw(measurements: Measurements) -> Figure:
    """Draw a column for each method and a line for each threshold.

    Args:
        measurements: what to show.

    Returns:
        A matplotlib figure of images, with the rates and their standard errors written in them.
    """
    rows = measurements.rows
    figure = new_figure(max(2.0 * len(rows) + 1.2, 6.0), 5.6)
    words = "what becomes of right and wrong predictions (shares of each line)"
    figure.suptitle(measurements.title(words), fontsize=12)
    panels: Any = figure.subplots(2, len(rows), squeeze=False)
    for line, (rule, title) in zip(panels, RULES.items(), strict=True):
        for index, (axes, row) in enumerate(zip(line, rows, strict=True)):
            means, errors = confusion_rates(row, rule)
            axes.imshow(means, cmap=COLOURS, vmin=0, vmax=1)
            for (i, j), value in np.ndenumerate(means):
                error = f"\n±{errors[i, j]:.3f}" if len(row.arrays) > 1 else ""
                text = f"{value:.2f}{error}"
                colour = "white" if value > 0.55 else "black"
                axes.text(j, i, text, ha="center", va="center", color=colour, fontsize=9)
            axes.set_xticks([0, 1], ["answers", "abstains"], fontsize=9)
            axes.set_yticks(*(([0, 1], ["right", "wrong\nor OOD"]) if index == 0 else ([],)))
            if rule == "default":
                axes.set_title(row.label.replace(", ", "\n"), fontsize=10)
        line[0].set_ylabel(title, fontsize=11)
    return figure
