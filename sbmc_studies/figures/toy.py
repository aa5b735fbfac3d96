"""The figure of the toy study: densities for s, densities for T, autocorrelations for both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sbmc_studies.figures.style import BLACK, BLUE, SKY, VERMILION, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sbmc_studies.paper.toy.run import Toy
    from sbmc_studies.paper.toy.target import Case

# Within a family the shades differ in lightness, and the strokes differ too.
SHADES = {"s": (BLACK, "#003F66", BLUE, SKY), "T": (BLACK, "#7A3300", VERMILION, "#F5A163")}
STROKES = ("-", "--", "-.", ":")


def draw(toy: Toy) -> Figure:
    """Draw the three panels.

    Args:
        toy: a run of the study.

    Returns:
        A matplotlib figure.

    Raises:
        BadInput: if matplotlib is not installed.
    """
    figure = new_figure(15, 4.4)
    panels: Any = figure.subplots(1, 3)
    titles = {"s": "SBMC: the posterior is s = 1", "T": "Cold posterior: the posterior is T = 1"}
    for panel, family in zip(panels[:2], ("s", "T"), strict=True):
        for rank, case in enumerate(toy.cases(family)):
            curve = toy.curves[f"density.{case.name}"]
            panel.plot(toy.curves["theta"], curve, label=_label(case), **_look(case, rank))
        panel.set(title=titles[family], xlabel="θ", ylabel="density", ylim=(0, None))
        panel.legend(frameon=False)
    _draw_autocorrelations(panels[2], toy)
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_autocorrelations(panel: Any, toy: Toy) -> None:
    both = all(any(case.value == 1 for case in toy.cases(family)) for family in ("s", "T"))
    for family in ("T", "s"):
        for rank, case in enumerate(toy.cases(family)):
            if family == "s" and case.value == 1 and both:
                continue  # one target, one line
            iact = toy.record.metrics[f"iact.{case.name}"]
            curve = toy.curves[f"acf.{case.name}"]
            name = "s = T = 1" if case.value == 1 and both else _label(case)
            label = f"{name}: IACT {iact:.1f}"
            panel.plot(np.arange(len(curve)), curve, label=label, **_look(case, rank))
    panel.axhline(0, color="#999999", linewidth=0.8, zorder=0)
    panel.set(title="Autocorrelation of NUTS chains", xlabel="lag (draws)", ylabel="ACF of θ")
    panel.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))


def _label(case: Case) -> str:
    return f"{case.family} = {case.value:g}"


def _look(case: Case, rank: int) -> dict[str, Any]:
    shades = SHADES[case.family]
    return {
        "color": shades[min(rank, len(shades) - 1)],
        "linestyle": STROKES[rank % len(STROKES)],
        "linewidth": 2,
    }


def draw_toy(toy: Toy, path: Path) -> Path:
    """Draw the figure of a stored run into a PNG file.

    Args:
        toy: the run; see `read_toy`.
        path: the picture's path.

    Returns:
        The picture's path.
    """
    figure = draw(toy)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    return path
