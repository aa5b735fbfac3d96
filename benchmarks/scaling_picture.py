"""The figures of the simulation, from its record alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from benchmarks.scaling_tables import format_seconds
from sbmc.report.charts import Curve, Guide, LineChart
from sbmc.report.charts.axis import Axis, nice_range
from sbmc.report.charts.style import Style, series_style, series_styles
from sbmc.report.figure import Figure

DAY = 86_400.0
_EFFICIENCY = Axis("efficiency", 0.0, 1.03, at=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0))


def build_figures(record: dict[str, Any]) -> list[Figure]:
    """Efficiency by numbers of islands and by their length; work lost by deaths of workers.

    Args:
        record: of `benchmarks.simulation`.

    Returns:
        Three figures.
    """
    return [_numbers(record), _lengths(record), _failures(record)]


def _numbers(record: dict[str, Any]) -> Figure:
    numbers = sorted({row["islands"] for row in record["grid"]})
    styles = series_styles([f"{number:,} islands" for number in numbers])
    curves = [
        _efficiency(style, [row for row in record["grid"] if row["islands"] == number])
        for style, number in zip(styles, numbers, strict=True)
    ]
    return _by_workers(
        f"MNIST7 islands of {record['constants']['island_seconds']:.0f} s",
        "The share of the workers’ time in which islands advance.",
        curves,
    )


def _lengths(record: dict[str, Any]) -> Figure:
    number = max(row["islands"] for row in record["grid"])
    rows = record["lengths"] + [row for row in record["grid"] if row["islands"] == number]
    limits = {each["island_seconds"]: each["workers"] for each in record["driver_limit"]}
    lengths = sorted({row["island_seconds"] for row in rows})
    curves, guides = [], []
    for index, length in enumerate(lengths):
        style = series_style(index, f"an island takes {format_seconds(length)}")
        curve = _efficiency(style, [row for row in rows if row["island_seconds"] == length])
        curves.append(curve)
        if limits[length] <= max(curve.x):
            ends = (limits[length], _EFFICIENCY.low), (limits[length], _EFFICIENCY.high)
            guides.append(Guide(*ends, style=style))
    return _by_workers(
        f"{number:,} islands",
        "Dotted lines in the same colours: with so many workers the driver is always busy.",
        curves,
        guides,
    )


def _failures(record: dict[str, Any]) -> Figure:
    endless = [row for row in record["failures"] if row["retries"] is None]
    labels = {None: "no checkpoint", 60.0: "a checkpoint every 60 s"}
    curves = []
    for index, (interval, label) in enumerate(labels.items()):
        rows = [row for row in endless if row["checkpoint"] == interval]
        style = series_style(index, label)
        days = [row["days"] for row in rows]
        lost = [row["lost"] / row["useful"] for row in rows]
        curves.append(Curve(style, days, lost, marked=True, joined=False))
        # The work since the last checkpoint, or since the beginning of the island, is lost.
        span = rows[0]["island_seconds"] if interval is None else interval
        grid = [10 ** (math.log10(days[0]) + step / 50) for step in range(151)]
        x = [each for each in grid if each <= days[-1]]
        curves.append(Curve(style, x, [_expected(span / (each * DAY)) for each in x]))
    ends = nice_range([day for curve in curves for day in curve.x], log=True)
    low, high = nice_range([value for curve in curves for value in curve.y], log=True)
    powers = tuple(10.0**power for power in range(-6, 3))
    return Figure(
        "Islands of an hour, whose workers die",
        "Markers are simulated; lines are (exp(λt) − 1)/λt − 1.",
        LineChart(
            curves,
            Axis("a worker dies once in so many days", *ends, log=True),
            Axis("work lost / useful work", low, high, log=True, at=powers),
        ),
        alt="The work that is lost falls with the time between two deaths of a worker.",
    )


def _expected(exponent: float) -> float:
    return math.expm1(exponent) / exponent - 1


def _efficiency(style: Style, rows: Sequence[dict[str, Any]]) -> Curve:
    ordered = sorted(rows, key=lambda row: row["workers"])
    x, y = ([float(row[name]) for row in ordered] for name in ("workers", "efficiency"))
    return Curve(style, x, y, marked=True)


def _by_workers(
    title: str, caption: str, curves: Sequence[Curve], guides: Sequence[Guide] = ()
) -> Figure:
    ends = nice_range([workers for curve in curves for workers in curve.x], log=True)
    powers = tuple(10.0**power for power in range(6))
    axis = Axis("workers", *ends, log=True, at=powers)
    ends_of = [f"{c.style.label}: {c.y[0]:.2f} to {c.y[-1]:.2f}" for c in curves]
    alt = f"Efficiency falls with the number of workers. {'; '.join(ends_of)}."
    return Figure(title, caption, LineChart(curves, axis, _EFFICIENCY, guides), alt)
