"""The figures of the toy study: densities and autocorrelations, for s and for T."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sbmc.report.charts import Curve, Guide, LineChart
from sbmc.report.charts.axis import Axis, nice_range
from sbmc.report.charts.lines import spread_evenly
from sbmc.report.charts.style import series_styles
from sbmc.report.figure import Figure
from sbmc.report.limits import Limits
from sbmc.report.pictures import draw_picture, write_picture

if TYPE_CHECKING:
    from sbmc_studies.paper.toy.run import Toy

FAMILIES = ("s", "T")
_DENSITIES = {
    "s": ("Density of SBMC(s)", "The anchored target for each s; s = 1 is the posterior itself."),
    "T": (
        "Density of the cold posterior",
        "The posterior to the power 1/T; T = 1 is the posterior itself.",
    ),
}


def build(toy: Toy, limits: Limits) -> list[Figure]:
    """Densities for s and for T, then autocorrelations for both.

    Args:
        toy: a run of the study.
        limits: how many curves and points are shown.

    Returns:
        The figures of the families that were run.
    """
    families = [family for family in FAMILIES if toy.cases(family)]
    makers: tuple[Callable[[Toy, str, Limits], Figure], ...] = (_density, _autocorrelation)
    return [make(toy, family, limits) for make in makers for family in families]


def _density(toy: Toy, family: str, limits: Limits) -> Figure:
    shown = spread_evenly(len(toy.curves["theta"]), limits.points)
    x = [_round(toy.curves["theta"][index]) for index in shown]
    curves = _curves(toy, family, limits, "density", x, shown)
    _, high = nice_range([value for curve in curves for value in curve.y], zero=True)
    peaks = "; ".join(f"{c.style.label} has its highest density, {max(c.y):.2f}" for c in curves)
    title, caption = _DENSITIES[family]
    return Figure(
        title,
        caption,
        LineChart(curves, Axis("θ", x[0], x[-1]), Axis("density", 0.0, high)),
        alt=f"Densities with two modes. {peaks}.",
    )


def _autocorrelation(toy: Toy, family: str, limits: Limits) -> Figure:
    lags = min(len(toy.curves[f"acf.{case.name}"]) for case in toy.cases(family))
    shown = spread_evenly(lags, limits.points)
    x = [float(lag) for lag in shown]
    curves = _curves(toy, family, limits, "acf", x, shown)
    low, _ = nice_range([value for curve in curves for value in curve.y])
    times = "; ".join(f"{curve.style.label}: {curve.note}" for curve in curves)
    return Figure(
        f"Autocorrelation of NUTS chains, by {family}",
        "How much a draw still depends on the one so many draws before it. Lower is better.",
        LineChart(
            curves,
            Axis("lag, draws", 0.0, x[-1] or 1.0),
            Axis("autocorrelation of θ", min(low, 0.0), 1.0),
            guides=[Guide((0.0, 0.0), (x[-1], 0.0))],
        ),
        alt=f"Falling curves. Integrated autocorrelation times: {times}.",
    )


def _curves(
    toy: Toy, family: str, limits: Limits, kind: str, x: list[float], shown: list[int]
) -> list[Curve]:
    cases = toy.cases(family)[: limits.series]
    styles = series_styles([f"{family} = {case.value:g}" for case in cases])
    curves = []
    for style, case in zip(styles, cases, strict=True):
        values = [_round(toy.curves[f"{kind}.{case.name}"][index]) for index in shown]
        note = f"IACT {toy.record.metrics[f'iact.{case.name}']:.1f}" if kind == "acf" else ""
        curves.append(Curve(style, x, values, note=note))
    return curves


def _round(value: float) -> float:
    """Six digits are more than a picture shows, and keep a page small."""
    return float(f"{value:.6g}")


def draw_toy(toy: Toy, path: Path) -> Path:
    """Draw the figures of a stored run into a file.

    Args:
        toy: the run; see `read_toy`.
        path: the picture's path.

    Returns:
        The path.

    Raises:
        BadInput: if matplotlib is not installed.
    """
    figures = build(toy, Limits(points=501))
    return write_picture(draw_picture(figures, "Toy study: SBMC and cold posteriors"), path)
