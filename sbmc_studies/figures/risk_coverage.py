"""Risk against coverage: how many answers are wrong, as more inputs are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sbmc_studies.figures.looks import legend_below, looks, tidy
from sbmc_studies.figures.measured import Measured, Measurements
from sbmc_studies.figures.style import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = {"in_domain": "in-domain inputs", "mixed": "half of the inputs out of domain"}
POINTS = 200


def mean_risk(row: Measured, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Average the curves of all seeds at each coverage that all of them reach.

    Args:
        row: with the curves of its seeds.
        kind: `"in_domain"` or `"mixed"`.

    Returns:
        Coverages and risks, `(200,)` each.
    """
    name = f"risk_coverage.{kind}"
    first = max(each[f"{name}.coverage"][0] for each in row.arrays)
    at = np.linspace(first, 1.0, POINTS)
    curves = [np.interp(at, each[f"{name}.coverage"], each[f"{name}.risk"]) for each in row.arrays]
    return at, np.mean(curves, axis=0)


def draw(measurements: Measurements) -> Figure:
    """Draw a panel for in-domain inputs and one for the mix, with the areas from the records.

    Args:
        measurements: what to show.

    Returns:
        A matplotlib figure.
    """
    figure = new_figure(11.0, 6.0)
    words = "error among answered inputs, the surest answered first"
    figure.suptitle(measurements.title(words), fontsize=12)
    panels: Any = figure.subplots(1, 2)
    for axes, (kind, title) in zip(panels, PANELS.items(), strict=True):
        for row, look in zip(measurements.rows, looks(measurements), strict=True):
            areas = (
                f"{100 * measurements.metric(row, f'confidence.aurc.{each}'):.2f} % {words}"
                for each, words in (("in_domain", "in domain"), ("mixed", "mixed"))
            )
            label = f"{row.label}: area {', '.join(areas)}"
            axes.plot(*mean_risk(row, kind), color=look.colour, linestyle=look.dashes, label=label)
        axes.set_title(title, fontsize=12, loc="left")
        axes.set_xlim(0, 1)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("coverage: share of inputs answered")
        tidy(axes)
    panels[0].set_ylabel("risk: share of answers that are wrong")
    legend_below(figure, panels[0], columns=2)
    return figure
