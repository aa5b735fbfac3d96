"""Reliability: do things happen as often as they are said to?"""

from __future__ import annotations

from sbmc.report.charts.frame import Axis
from sbmc.report.charts.lines import Curve, Guide, line_chart
from sbmc.report.charts.looks import legend, line_key
from sbmc.report.figure import figure, grid
from sbmc.report.markup import Html, el, join
from sbmc.report.tables import number, plain_rows, table
from sbmc_studies.figures.reliability import MIN_COUNT, PANELS, pooled_bins
from sbmc_studies.report.view import Section, View, missing

_TITLES = {
    "model": "Reliability of the model’s own probability",
    "score": "Reliability of the meta-classifier’s score",
}


def build(view: View) -> Section:
    """Both diagrams, or the command that would give them."""
    title = "Reliability"
    if view.measured is None:
        words = "No run here kept its reliability bins. They come with"
        return Section("reliability", title, missing(words, view.confidence_command))
    intro = (
        f"Bins with at least {MIN_COUNT} examples, all seeds together. On the diagonal, what is "
        "said to happen with probability p happens in a share p of the cases; below it, the "
        "ensemble is too sure of itself."
    )
    figures = [_diagram(view, kind) for kind in PANELS]
    return Section("reliability", title, join((el("p", intro), grid(*figures))))


def _diagram(view: View, kind: str) -> Html:
    assert view.measured is not None
    measurements, looks = view.measured
    question, below = PANELS[kind]
    curves, rows, apart = [], [], []
    for row, look in zip(measurements.rows, looks, strict=True):
        said, happened = pooled_bins(row, kind)
        x, y = [float(p) for p in said], [float(p) for p in happened]
        curves.append(Curve(look, x, y, marked=True))
        rows += [[look.label, number(p), number(q)] for p, q in zip(x, y, strict=True)]
        if x:
            worst = max(zip(x, y, strict=True), key=lambda pair: abs(pair[0] - pair[1]))
            apart.append(f"{look.label}: {worst[1]:.2f} where {worst[0]:.2f} is said")
    alt = f"Curves beside the diagonal, {question} Farthest from it: {'; '.join(apart)}."
    return figure(
        _TITLES[kind],
        question[0].upper() + question[1:],
        line_chart(
            curves,
            Axis(below),
            Axis("how often it is so"),
            alt=alt,
            guides=[Guide((0, 0), (1, 1))],
            shared=False,
        ),
        table(_TITLES[kind], ("Setting", below, "how often it is so"), plain_rows(rows)),
        legend=legend(looks, [line_key("guide", "calibrated", "2 3")]),
    )
