"""The spider plot: accuracy, calibration and confidence of each method, all with 1 for the best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sbmc.checks import require
from sbmc_studies.figures.looks import GRID, legend_below, looks
from sbmc_studies.figures.measured import Measurements
from sbmc_studies.figures.style import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Metric of a record, as in the paper's protocol; words; whether more of it is better.
AXES = (
    ("accuracy", "accuracy", True),
    ("nll", "NLL", False),
    ("ece", "calibration\nerror", False),
    ("confidence.default.auc_roc", "AUC-ROC", True),
    ("confidence.optimal_f1.f1", "F1 of\nabstention", True),
    ("confidence.optimal_f1.accuracy", "accuracy of\nanswer or abstain", True),
    ("confidence.aurc.mixed", "area under\nrisk–coverage", False),
    ("ood.epistemic.auroc", "H_ep finds\nout of domain", True),
)
# The paper re-normalises "so 1 is best" and does not say how. Here: ratios, since stretching each
# axis from the worst to the best would blow up differences that are nothing but noise.
NORMALISATION = (
    "Each axis: value over the best of the methods shown (for NLL, calibration error\n"
    "and risk the best over the value), so 1 is the best."
)


def relative_to_best(values: np.ndarray, more_is_better: bool) -> np.ndarray:
    """Put values on a scale on which the best has 1.

    Args:
        values: `(methods,)`, not negative.
        more_is_better: whether the largest is the best, or the smallest.

    Returns:
        value / best, or best / value; all in [0, 1].

    Example:
        >>> relative_to_best(np.array([0.2, 0.4]), more_is_better=False).tolist()
        [1.0, 0.5]
    """
    values = np.asarray(values, dtype=float)
    require(bool((values >= 0).all()), "values", "non-negative numbers", values)
    best = values.max() if more_is_better else values.min()
    upper, lower = (values, best) if more_is_better else (best, values)
    # 0 over 0 is a best value that happens to be 0.
    ratio = np.divide(upper, lower, out=np.ones(len(values)), where=np.asarray(lower) > 0)
    return np.clip(ratio, 0.0, 1.0)


def relative_values(measurements: Measurements) -> np.ndarray:
    """The scale of each axis for each row.

    Args:
        measurements: what to show.

    Returns:
        `(rows, axes)` numbers from 0 to 1.
    """
    columns = [
        relative_to_best(
            np.array([measurements.metric(row, name) for row in measurements.rows]), better
        )
        for name, _, better in AXES
    ]
    return np.stack(columns, axis=1)


def draw(measurements: Measurements) -> Figure:
    """Draw a closed line for each method.

    Args:
        measurements: what to show.

    Returns:
        A matplotlib figure with the normalisation written in it.
    """
    figure = new_figure(8.8, 9.0)
    title = measurements.title("accuracy, uncertainty, abstention; outside is better")
    figure.suptitle(f"{title}\n{NORMALISATION}", fontsize=10)
    axes: Any = figure.subplots(subplot_kw={"projection": "polar"})
    angles = np.linspace(0, 2 * np.pi, len(AXES), endpoint=False)
    closed = np.r_[angles, angles[:1]]
    values = relative_values(measurements)
    for line, row, look in zip(values, measurements.rows, looks(measurements), strict=True):
        around = np.r_[line, line[:1]]
        style = {"color": look.colour, "linestyle": look.dashes, "marker": look.marker}
        axes.plot(closed, around, markersize=4, label=row.label, clip_on=False, **style)
    axes.set_theta_offset(np.pi / 2)
    axes.set_theta_direction(-1)
    axes.set_xticks(angles, [words for _, words, _ in AXES])
    axes.tick_params(axis="x", pad=9)
    for angle, words in zip(angles, axes.get_xticklabels(), strict=True):
        # Beside the circle, not across it: from the top clockwise, right half first.
        side = round(float(np.sin(angle)), 6)
        words.set_horizontalalignment("center" if side == 0 else "left" if side > 0 else "right")
    axes.set_ylim(0, 1)
    axes.set_rlabel_position(202.5)  # between two axes on which all methods are near 1
    axes.set_yticks([0.25, 0.5, 0.75, 1.0])
    axes.grid(color=GRID)
    axes.spines["polar"].set_color(GRID)
    legend_below(figure, axes)
    return figure
