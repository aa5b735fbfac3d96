"""The picture of the simulation, from its record alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from benchmarks.scaling_tables import format_seconds
from sbmc_studies.figures.style import BLACK, BLUE, GREY, MARKERS, PALETTE, VERMILION, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DAY = 86_400.0


def draw(record: dict[str, Any]) -> Figure:
    """Efficiency by numbers of islands and by their length; work lost by deaths of workers.

    Args:
        record: of `benchmarks.simulation`.

    Returns:
        A matplotlib figure.
    """
    figure = new_figure(12.5, 4.4)
    left, middle, right = figure.subplots(1, 3)
    length = record["constants"]["island_seconds"]
    _draw_numbers(left, record, length)
    _draw_lengths(middle, record)
    _draw_failures(right, record)
    return figure


def _draw_numbers(axis: Any, record: dict[str, Any], length: float) -> None:
    numbers = sorted({row["islands"] for row in record["grid"]})
    for number, colour, marker in zip(numbers, PALETTE, MARKERS, strict=False):
        rows = [row for row in record["grid"] if row["islands"] == number]
        _line(axis, rows, f"{number:,}", colour, marker)
    axis.set_title(f"MNIST7 islands of {length:.0f} s")
    axis.legend(title="islands", fontsize=8)
    _workers(axis)
    axis.set_ylabel("efficiency")


def _draw_lengths(axis: Any, record: dict[str, Any]) -> None:
    number = max(row["islands"] for row in record["grid"])
    rows = record["lengths"] + [row for row in record["grid"] if row["islands"] == number]
    limits = {each["island_seconds"]: each["workers"] for each in record["driver_limit"]}
    lengths = sorted({row["island_seconds"] for row in rows})
    for length, colour, marker in zip(lengths, PALETTE, MARKERS, strict=False):
        own = [row for row in rows if row["island_seconds"] == length]
        _line(axis, own, format_seconds(length), colour, marker)
        if limits[length] <= max(row["workers"] for row in own):
            axis.axvline(limits[length], color=colour, linestyle=":", linewidth=1.2)
    axis.set_title(f"{number:,} islands; dotted: driver busy")
    axis.legend(title="an island takes", fontsize=8)
    _workers(axis)


def _draw_failures(axis: Any, record: dict[str, Any]) -> None:
    endless = [row for row in record["failures"] if row["retries"] is None]
    styles = {None: ("no checkpoint", VERMILION, "s"), 60.0: ("every 60 s", BLUE, "o")}
    for interval, (label, colour, marker) in styles.items():
        rows = [row for row in endless if row["checkpoint"] == interval]
        days = [row["days"] for row in rows]
        lost = [row["lost"] / row["useful"] for row in rows]
        axis.plot(days, lost, color=colour, marker=marker, linestyle="", label=label)
        # Between two checkpoints, or from the beginning to the end: (exp(rt) - 1)/(rt) - 1.
        curve = [10 ** (math.log10(days[0]) + step / 50) for step in range(151)]
        curve = [x for x in curve if x <= days[-1]]
        span = rows[0]["island_seconds"] if interval is None else interval
        axis.plot(curve, [_expected(span / (x * DAY)) for x in curve], color=colour, linewidth=1)
    axis.plot([], [], color=BLACK, linewidth=1, label="(exp(λt) − 1)/λt − 1")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_title("islands of an hour")
    axis.set_xlabel("a worker dies once in so many days")
    axis.set_ylabel("work lost / work of use")
    axis.legend(fontsize=8)
    axis.grid(color=GREY, alpha=0.25)


def _expected(exponent: float) -> float:
    return math.expm1(exponent) / exponent - 1


def _line(axis: Any, rows: list[dict[str, Any]], label: str, colour: str, marker: str) -> None:
    rows = sorted(rows, key=lambda row: row["workers"])
    values = [row["efficiency"] for row in rows]
    axis.plot([row["workers"] for row in rows], values, label=label, color=colour, marker=marker)


def _workers(axis: Any) -> None:
    axis.set_xscale("log")
    axis.set_ylim(0, 1.03)
    axis.set_xlabel("workers")
    axis.grid(color=GREY, alpha=0.25)
