"""What a budget buys: error, NLL and epistemic entropy against epochs per chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sbmc.checks import BadInput
from sbmc.report.charts.frame import Axis, nice_range
from sbmc.report.charts.lines import Curve, Guide, line_chart
from sbmc.report.charts.looks import legend, line_key, make_looks
from sbmc.report.figure import figure, grid
from sbmc.report.markup import Html, el, join
from sbmc.report.numbers import short
from sbmc.report.tables import Cell, number, plain_rows, table
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.settings import resolve, settings_hash
from sbmc_studies.figures.epochs import PANELS, Panel, Series, curve_row
from sbmc_studies.paper.numbers import PaperRow, gold_standards
from sbmc_studies.report.collect import Study
from sbmc_studies.report.view import Section, View

_DASHES = ("1 2", "3 2 1 2", "6 3")


def find_series(study: Study, name: str = "epochs") -> list[Series]:
    """The curves of the experiment's own figure, from the runs that were given.

    Args:
        study: what was found.
        name: of the figure in the experiment's file.

    Returns:
        Curves of two points at least.
    """
    experiment = study.experiment
    if experiment is None:
        return []
    known = {(each.method, each.record.hash): each.pooled for each in study.settings}
    found = []
    for curve in experiment.curves.get(name, ()):
        pooled = {}
        for epochs in curve["epochs"]:
            here = known.get((curve["method"], _digest(study, curve, epochs) or ""))
            if here is not None:
                pooled[float(epochs)] = here
        if len(pooled) > 1:
            found.append(Series(curve["label"], tuple(pooled), tuple(pooled.values())))
    return found


def build(view: View) -> Section | None:
    """The four panels; None if no curve has two points."""
    series = find_series(view.study)[: view.limits.series]
    if not series:
        return None
    gold = gold_standards(view.study.name)[: len(_DASHES)]
    figures = [_panel(panel, series, gold) for panel in PANELS]
    intro = "The same methods with more and more epochs for each chain; both axes are logarithmic."
    body = (el("p", intro), grid(*(each for each in figures if each is not None)))
    return Section("budget", "What a budget buys", join(body))


def _panel(panel: Panel, series: list[Series], gold: tuple[PaperRow, ...]) -> Html | None:
    looks = make_looks([each.legend for each in series])
    curves, rows, told = [], [], []
    for look, each in zip(looks, series, strict=True):
        if any(panel.metric not in point.values for point in each.points):
            continue
        values = [panel.value(value) for value in each.values(panel.metric)]
        errors = [abs(panel.factor) * error for error in each.errors(panel.metric)]
        curves.append(Curve(look, each.epochs, values, errors, marked=True))
        for epochs, value, error in zip(each.epochs, values, errors, strict=True):
            rows.append([look.label, Cell(short(epochs), epochs), number(value), number(error)])
        told.append(f"{look.label}: {short(values[0])} to {short(values[-1])}")
    if not curves:
        return None
    places = sorted({epochs for each in series for epochs in each.epochs})
    lines = [
        (panel.value(row.values[panel.metric]), row.epochs, dashes)
        for row, dashes in zip(gold, _DASHES, strict=False)
        if panel.metric in row.values
    ]
    heights = [v for curve in curves for v in curve.y] + [height for height, _, _ in lines]
    log = bool(panel.ticks)
    low, high = nice_range(heights, log=log, zero=not log)
    ends = nice_range(places, log=True)
    return figure(
        panel.title,
        "Grey lines are the paper’s long chains." if lines else "Bars are standard errors.",
        line_chart(
            curves,
            Axis("epochs per chain", *ends, log=True, at=tuple(places)),
            Axis(panel.title, low, high, log=log),
            alt=f"{panel.title} over epochs per chain, from least to most: {'; '.join(told)}.",
            guides=[Guide((ends[0], at), (ends[1], at), dashes) for at, _, dashes in lines],
            shared=False,
        ),
        table(panel.title, ("Method", "epochs", panel.title, "±"), plain_rows(rows)),
        legend=legend(
            looks,
            [line_key("guide", f"the paper’s, {e:,.0f} epochs", dashes) for _, e, dashes in lines],
        ),
    )


def _digest(study: Study, curve: Mapping[str, Any], epochs: int) -> str | None:
    assert study.experiment is not None
    row = curve_row(curve, epochs)
    try:
        settings = resolve(study.experiment, get_method(row.method), row.preset, row.overrides)
    except BadInput:
        return None
    return settings_hash(study.name, row.method, settings)
