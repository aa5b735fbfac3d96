"""Reliability diagrams: of the model's own probability, and of the meta-classifier's score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sbmc_studies.figures.looks import legend_below, looks, tidy
from sbmc_studies.figures.measured import Measured, Measurements
from sbmc_studies.figures.style import GREY, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = {
    "model": ("in domain: is the answer right?", "largest probability of the model"),
    "score": ("mixed: is it wrong or out of domain?", "score of the meta-classifier"),
}
# A frequency from fewer examples, over all seeds, would be noise.
MIN_COUNT = 10


def pooled_bins(row: Measured, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Take the bins of all seeds together, as if their examples were in one list.

    Args:
        row: with the bins of its seeds.
        kind: `"model"` or `"score"`.

    Returns:
        Mean probability and frequency of each bin that has `MIN_COUNT` examples at least.
    """
    counts = row.stack(f"reliability.{kind}.count")
    total = counts.sum(axis=0)
    kept = total >= MIN_COUNT
    found = []
    for name in ("probability", "frequency"):
        values = row.stack(f"reliability.{kind}.{name}")
        sums = np.where(counts > 0, np.nan_to_num(values) * counts, 0.0).sum(axis=0)
        found.append(sums[kept] / total[kept])
    return found[0], found[1]


def draw(measurements: Measurements) -> Figure:
    """Draw both diagrams; on the diagonal, things happen as often as they are said to.

    Args:
        measurements: what to show.

    Returns:
        A matplotlib figure.
    """
    figure = new_figure(11.0, 6.6)
    words = f"reliability, in bins with at least {MIN_COUNT} examples"
    figure.suptitle(measurements.title(words).replace("mean over", "examples of"), fontsize=12)
    panels: Any = figure.subplots(1, 2)
    for axes, (kind, (title, below)) in zip(panels, PANELS.items(), strict=True):
        axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=":", label="calibrated")
        for row, look in zip(measurements.rows, looks(measurements), strict=True):
            axes.plot(
                *pooled_bins(row, kind),
                color=look.colour,
                linestyle=look.dashes,
                marker=look.marker,
                markersize=4,
                label=row.label,
            )
        axes.set_title(title, fontsize=12, loc="left")
        axes.set(xlim=(0, 1), ylim=(0, 1.02))
        axes.set_xlabel(below)
        tidy(axes)
    panels[0].set_ylabel("how often it is so")
    legend_below(figure, panels[0])
    return figure
