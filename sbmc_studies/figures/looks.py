"""How methods look, alike in all figures of the meta-classifier: a colour each, dashes for P."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sbmc.checks import require
from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.figures.measured import Measured, Measurements
from sbmc_studies.figures.style import MARKERS, PALETTE
from sbmc_studies.paper.tables.confidence import confidence_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The rows of a method, from the largest P on: solid, dashed for another P, ...
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
_HATCHES = ("", "///", "...", "xxx")
GRID = "#dddddd"
# Inches of a legend entry: its handle with the gaps around it, and a letter of its text on average.
_HANDLE, _CHARACTER = 0.65, 0.066


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
        measurements: the rows; those of one method share a colour, the same in every figure of the
            experiment whichever others are shown. The largest P is solid, another is dashed, and
            a further row with a P that was there before comes after those.

    Returns:
        A look for each row.

    Raises:
        BadInput: if there are more methods than colours that everyone can tell apart.
    """
    rows = measurements.rows
    everyone = [row.method for row in confidence_rows(get_experiment(measurements.experiment))]
    order = list(dict.fromkeys(everyone))
    if len(order) > len(PALETTE):
        order = list(dict.fromkeys(row.method for row in rows))
    rule = f"at most {len(PALETTE)} methods"
    require(len(order) <= len(PALETTE), "methods", rule, order)
    found = []
    for row in rows:
        place = order.index(row.method)
        line = min(_lines(measurements, row.method).index(row), len(_DASHES) - 1)
        found.append(Look(PALETTE[place], _DASHES[line], MARKERS[place], _HATCHES[line]))
    return found


def _lines(measurements: Measurements, method: str) -> list[Measured]:
    """The rows of a method in the order of their dashes."""
    rows = [row for row in measurements.rows if row.method == method]
    first = {row.islands: row for row in reversed(rows)}
    return sorted(rows, key=lambda row: (first[row.islands] is not row, -row.islands))


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


def legend_below(figure: Figure, axes: Any, columns: int = 3, more: Any = ()) -> None:
    """Put one legend under all panels, from the entries of one of them, in columns that fit.

    Args:
        figure: whose.
        axes: with the entries.
        columns: how many entries stand in a line at most.
        more: further pairs of handle and label.
    """
    handles, labels = axes.get_legend_handles_labels()
    handles, labels = [*handles, *(one for one, _ in more)], [*labels, *(word for _, word in more)]
    widest = max((len(label) for label in labels), default=0)
    inches = _HANDLE + widest * _CHARACTER
    ncols = max(1, min(columns, len(labels), int(figure.get_figwidth() / inches)))
    place: Any = {"loc": "outside lower center", "frameon": False, "fontsize": 8.5}
    figure.legend(handles, labels, ncols=ncols, **place)
