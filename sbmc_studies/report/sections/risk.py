"""Risk against coverage: how many answers are wrong, as more inputs are answered."""

from __future__ import annotations

import numpy as np

from sbmc.report.charts.frame import Axis, nice_range
from sbmc.report.charts.lines import Curve, line_chart
from sbmc.report.charts.looks import legend
from sbmc.report.figure import curve_table, figure, grid
from sbmc.report.markup import Html, el, join
from sbmc_studies.figures.risk_coverage import PANELS, mean_risk
from sbmc_studies.report.view import Section, View, missing


def build(view: View) -> Section:
    """Both figures, or the command that would give them."""
    title = "Risk and coverage"
    if view.measured is None:
        words = "No run here kept its risk–coverage curves. They come with"
        return Section("risk", title, missing(words, view.confidence_command))
    intro = (
        "Inputs are answered in order of the score, the surest first. Coverage is the share that "
        "is answered, risk the share of those answers that are wrong. Lower is better, and the "
        "area under the curve (AURC) sums it up."
    )
    figures = [_figure(view, kind, words) for kind, words in PANELS.items()]
    return Section("risk", title, join((el("p", intro), grid(*figures))))


def _figure(view: View, kind: str, words: str) -> Html:
    assert view.measured is not None
    measurements, looks = view.measured
    curves, columns, areas = [], [], []
    begin = max(float(mean_risk(row, kind)[0][0]) for row in measurements.rows)
    places = [float(p) for p in np.linspace(begin, 1.0, view.limits.points)]
    for row, look in zip(measurements.rows, looks, strict=True):
        values = [float(v) for v in np.interp(places, *mean_risk(row, kind))]
        curves.append(Curve(look, places, values))
        columns.append((look.label, values))
        area = measurements.metric(row, f"confidence.aurc.{kind}")
        areas.append(f"AURC {100 * area:.2f}\u00a0%")
    _, high = nice_range([v for _, values in columns for v in values], zero=True)
    told = "; ".join(f"{look.label} {area}" for look, area in zip(looks, areas, strict=True))
    title = f"Risk and coverage, {words}"
    return figure(
        title,
        "Share of answers that are wrong, as more inputs are answered.",
        line_chart(
            curves,
            Axis("coverage: share of inputs answered"),
            Axis("risk: share of wrong answers", 0.0, min(1.0, high), percent=True),
            alt=f"Curves that rise with coverage. Areas under them: {told}.",
        ),
        curve_table(title, "coverage", places, columns),
        legend=legend(looks, values=areas),
    )
