"""How methods look, alike in all figures of the meta-classifier: a colour each, dashes for P."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sbmc.checks import require
from sbmc.figures.measured import Measurements
from sbmc.figures.style import MARKERS, PALETTE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The order of P among the rows of a method, from the last (the largest): solid, dashed, ...
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
_HATCHES = ("", "///", "...", "xxx")
GRID = "#dddddd"


@dataclass(frozen=True)
class Look:
    """Colour, line and bar of one row."""

    colour: str
    dashes: Any
    marker: str
    hatch: str


def looks(measurements: Measurements) -> list[Look]:
    """Give each row its look.

    Args:
        measurements: the rows; those of one method share a colour, and the last is solid.

    Returns:
        A look for each row.

    Raises:
        BadInput: if there are more methods than colours that everyone can tell apart.
    """
    methods = [row.method for row in measurements.rows]
    order = list(dict.fromkeys(methods))
    rule = f"at most {len(PALETTE)} methods"
    require(len(order) <= len(PALETTE), "methods", rule, order)
    found = []
    for index, method in enumerate(methods):
        later = min(methods[index + 1 :].count(method), len(_DASHES) - 1)
        place = order.index(method)
        found.append(Look(PALETTE[place], _DASHES[later], MARKERS[place], _HATCHES[later]))
    return found


def tidy(axes: Any, *, grid: str = "both") -> None:
    """Give axes a light grid and no frame above and to the right.

    Args:
        axes: matplotlib's.
        grid: `"both"`, `"x"` or `"y"`.
    """
    axes.grid(axis=grid, color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def legend_below(figure: Figure, axes: Any, columns: int = 3) -> None:
    """Put one legend under all panels, from the entries of one of them.

    Args:
        figure: whose.
        axes: with the entries.
        columns: how many entries stand in a line at most.
    """
    handles, labels = axes.get_legend_handles_labels()
    ncols = min(columns, max(len(labels), 1))
    place: Any = {"loc": "outside lower center", "frameon": False, "fontsize": 9}
    figure.legend(handles, labels, ncols=ncols, **place)
