"""Entropy by group and by digit: stacked bars, aleatoric below and epistemic above."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sbmc_studies.figures.looks import legend_below, looks, tidy
from sbmc_studies.figures.measured import Measured, Measurements
from sbmc_studies.figures.style import BLACK, GREY, new_figure
from sbmc_studies.paper.numbers import read_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE = "mnist7_entropy_per_digit"
PANELS = {"groups": "by group", "classes": "in domain, by true class"}
_WORDS = {"white_noise": "white noise", "perturbed": "perturbed\ndigits"}
# The paper's names of groups, by ours.
_PAPER = {"white_noise": "wn", "perturbed": "per"}
_ALEATORIC = 0.35


def paper_totals(measurements: Measurements, row: Measured, names: list[str]) -> list[float]:
    """The paper's total entropies beside ours; NaN where it gives none.

    Args:
        measurements: in whose protocol and experiment.
        row: the method.
        names: of groups or classes.

    Returns:
        One for each name.
    """
    printed_there = row.in_paper and measurements.experiment == "mnist7"
    if not printed_there or measurements.protocol != "paper":
        return [float("nan")] * len(names)
    islands = "" if row.method == "map" else str(row.islands)
    printed = {
        each["group"]: float(each["h_tot"])
        for each in read_table(TABLE)
        if each["method"] == row.method and each["islands"] == islands
    }
    return [printed.get(_PAPER.get(name, name), float("nan")) for name in names]


def draw(measurements: Measurements) -> Figure:
    """Draw the bars of all methods, side by side in each group.

    Args:
        measurements: what to show.

    Returns:
        A matplotlib figure. The pale part of a bar is aleatoric entropy, the full part above it
        epistemic, the whole bar total; bars stand in the order of the legend; a black line is the
        paper's total where the paper gives one.
    """
    from matplotlib.patches import Patch

    rows, styles = measurements.rows, looks(measurements)
    figure = new_figure(11.0, 8.0)
    figure.suptitle(measurements.title("entropy of predictions, in nats"), fontsize=12)
    panels: Any = figure.subplots(2, 1)
    width = 0.84 / len(rows)
    marked = False
    for axes, (kind, title) in zip(panels, PANELS.items(), strict=True):
        names = [str(name) for name in rows[0].arrays[0][f"entropy.{kind}"]]
        places = np.arange(len(names))
        for index, (row, look) in enumerate(zip(rows, styles, strict=True)):
            at = places + (index - (len(rows) - 1) / 2) * width
            below = row.mean(f"entropy.{kind}.aleatoric")
            above = row.mean(f"entropy.{kind}.epistemic")
            common = {"width": width, "color": look.colour, "edgecolor": "white"}
            axes.bar(at, below, alpha=_ALEATORIC, **common)
            axes.bar(at, above, bottom=below, hatch=look.hatch, label=row.label, **common)
            paper = np.array(paper_totals(measurements, row, names))
            if not np.isnan(paper).all():
                marked = True
                axes.hlines(paper, at - width / 2, at + width / 2, color=BLACK, linewidth=1.6)
        axes.set_xticks(places, [_WORDS.get(name, name) for name in names])
        axes.set_title(title, fontsize=12, loc="left")
        axes.set_ylabel("entropy, nats")
        tidy(axes, grid="y")
    more = [
        (Patch(color=GREY), "full colour: epistemic"),
        (Patch(color=GREY, alpha=_ALEATORIC), "pale: aleatoric"),
    ]
    if marked:
        line = panels[0].plot([], [], color=BLACK, linewidth=1.6)[0]
        more.append((line, "total in the paper"))
    legend_below(figure, panels[0], columns=4, more=more)
    return figure
