"""The spider plot: everything at once, each axis relative to the best."""

from __future__ import annotations

from sbmc.checks import BadInput
from sbmc.report.charts.looks import legend
from sbmc.report.charts.spider import spider_chart
from sbmc.report.figure import figure, grid
from sbmc.report.markup import el, join
from sbmc.report.tables import number, plain_rows, table
from sbmc_studies.figures.spider import AXES, relative_values
from sbmc_studies.report.view import Section, View, missing


def build(view: View) -> Section:
    """The plot, or what it would need."""
    title = "All measures at once"
    if view.measured is None:
        words = "The spider plot needs the measures of abstention. They come with"
        return Section("spider", title, missing(words, view.confidence_command))
    measurements, looks = view.measured
    if len(measurements.rows) < 2:
        words = "The spider plot compares settings, and only one here has all its measures. Add"
        return Section(
            "spider", title, missing(words, f"{view.confidence_command} --method map,de")
        )
    try:
        values = relative_values(measurements)
    except (KeyError, BadInput):
        words = "These records lack some of the measures of the spider plot. Make them anew with"
        return Section("spider", title, missing(words, f"{view.confidence_command} --force"))
    names = [words for _, words, _ in AXES]
    flat = [" ".join(words.split()) for words in names]
    series = [(look, [float(v) for v in line]) for look, line in zip(looks, values, strict=True)]
    means = [(look, sum(line) / len(line)) for look, line in series]
    told = "; ".join(f"{look.label} {mean:.2f}" for look, mean in means)
    raw = [
        [
            look.label,
            *(number(measurements.metric(row, metric)) for metric, _, _ in AXES),
        ]
        for row, look in zip(measurements.rows, looks, strict=True)
    ]
    caption = (
        "Each axis: the value over the best of the settings shown (for NLL, calibration error and "
        "risk the best over the value), so 1 is the best, and outside is better."
    )
    shape = figure(
        "Spider plot",
        caption,
        spider_chart(
            series, names, alt=f"Spider plot of {len(names)} measures. Mean over all axes: {told}."
        ),
        table(
            "Spider plot: share of the best on each axis",
            ("Setting", *flat),
            plain_rows([look.label, *map(number, line)] for look, line in series),
        ),
        legend=legend(looks),
    )
    exact = table("What the axes show, before it is divided", ("Setting", *flat), plain_rows(raw))
    intro = "Accuracy, calibration and the quality of abstention, side by side."
    return Section("spider", title, join((el("p", intro), grid(shape), exact)))
