"""ROC of "wrong or out of domain", and accuracy when the ensemble may abstain."""

from __future__ import annotations

from sbmc.report.charts.frame import Axis, nice_range
from sbmc.report.charts.lines import Curve, Guide, line_chart, spread_evenly
from sbmc.report.charts.looks import legend, line_key
from sbmc.report.figure import curve_table, figure, grid
from sbmc.report.markup import Html, el, join
from sbmc.report.numbers import with_error
from sbmc.report.tables import Cell, plain_rows, table
from sbmc_studies.figures.roc import AREA, mean_roc
from sbmc_studies.report.view import PROTOCOL, Section, View, missing

# Metric after the protocol, heading, digits.
_COLUMNS = (
    ("default.auc_roc", "AUC-ROC", 3),
    ("default.f1", "F1 at 0.5", 3),
    ("default.accuracy", "right decisions at 0.5, %", 1),
    ("optimal_f1.f1", "F1 at best threshold", 3),
    ("optimal_f1.accuracy", "right decisions there, %", 1),
    ("optimal_f1.threshold", "threshold", 3),
    ("aurc.mixed", "area under risk–coverage", 3),
)


def build(view: View) -> Section:
    """Both figures and the table, or the command that would give them."""
    title = "ROC, and accuracy with abstention"
    if view.measured is None:
        words = "No run here trained the classifier that says when to abstain. Make some with"
        return Section("abstention", title, missing(words, view.confidence_command))
    intro = (
        "A small classifier looks at the ensemble’s prediction and its entropies and scores how "
        "likely the answer is wrong or the input out of domain; above a threshold the ensemble "
        "abstains. Half of the inputs here are out of domain. Curves are means over seeds, in the "
        f"{PROTOCOL}’s protocol."
    )
    body = (el("p", intro), grid(_roc(view), _thresholds(view)), _table(view))
    return Section("abstention", title, join(body))


def _roc(view: View) -> Html:
    assert view.measured is not None
    measurements, looks = view.measured
    curves, columns, areas = [], [], []
    places: list[float] = []
    for row, look in zip(measurements.rows, looks, strict=True):
        false, true = mean_roc(row)
        kept = spread_evenly(len(false) - 1, view.limits.points)
        places = [float(false[1:][i]) for i in kept]
        values = [float(true[1:][i]) for i in kept]
        curves.append(Curve(look, [0.0, *places], [0.0, *values]))
        columns.append((look.label, values))
        areas.append(f"AUC {measurements.metric(row, AREA):.3f}")
    told = "; ".join(f"{look.label} {area}" for look, area in zip(looks, areas, strict=True))
    title = "ROC of “wrong or out of domain”"
    across = "abstains though the answer is right"
    return figure(
        title,
        "How many bad answers are caught, against how many good ones are lost. Up and to the left "
        "is better.",
        line_chart(
            curves,
            Axis(across),
            Axis("abstains where it is wrong or out of domain"),
            alt=f"ROC curves above the diagonal. Areas under them: {told}.",
            guides=[Guide((0, 0), (1, 1))],
            height=330,
        ),
        curve_table(title, across, places, columns),
        legend=legend(looks, [line_key("guide", "by chance", "2 3")], areas),
    )


def _thresholds(view: View) -> Html:
    assert view.measured is not None
    measurements, looks = view.measured
    curves, columns, marks, told = [], [], [], []
    places: list[float] = []
    for row, look in zip(measurements.rows, looks, strict=True):
        at = row.mean("two_level.thresholds")
        accuracy = row.mean("two_level.accuracy")
        kept = spread_evenly(len(at), view.limits.points)
        x, values = [float(at[i]) for i in kept], [float(accuracy[i]) for i in kept]
        places = x
        curves.append(Curve(look, x, values))
        columns.append((look.label, values))
        best = measurements.metric(row, "confidence.optimal_f1.threshold")
        there = measurements.metric(row, "confidence.optimal_f1.accuracy")
        marks.append((look, best, there, f"{look.label}: {there:.3f} at threshold {best:.3f}"))
        told.append(f"{look.label} {there:.3f} at {best:.2f}")
    lowest, highest = nice_range([v for _, values in columns for v in values])
    title = "Accuracy of “answer or abstain” over thresholds"
    return figure(
        title,
        "Right decisions: right answers, and abstentions where the answer would be wrong. Markers "
        "stand at the threshold that is best by F1.",
        line_chart(
            curves,
            Axis("threshold (0: abstains always, 1: answers always)"),
            Axis("share of right decisions", max(0.0, lowest), min(1.0, highest)),
            alt=f"Curves over thresholds. At the F1-optimal threshold: {'; '.join(told)}.",
            guides=[Guide((0.5, max(0.0, lowest)), (0.5, min(1.0, highest)))],
            marks=marks,
            height=330,
        ),
        curve_table(title, "threshold", places, columns),
        legend=legend(looks, [line_key("guide", "default threshold, 0.5", "2 3")]),
    )


def _table(view: View) -> Html | None:
    groups = []
    for setting in view.study.settings[: view.limits.rows]:
        several = len(setting.runs) > 1
        for protocol in ("paper", "clean"):
            start = "confidence." if protocol == "paper" else f"confidence.{protocol}."
            values = [setting.value(start + name) for name, _, _ in _COLUMNS]
            if all(value is None for value in values):
                continue
            cells: list[object] = [
                setting.label,
                f"{protocol}’s" if protocol == "paper" else "clean",
            ]
            for (name, _, digits), value in zip(_COLUMNS, values, strict=True):
                error = setting.error(start + name) if several else None
                cells.append(Cell(with_error(value, error, name, digits), value))
            groups.append(cells)
    if not groups:
        return None
    headings = ("Setting", "protocol", *(heading for _, heading, _ in _COLUMNS))
    caption = "The decision to answer or abstain, in both protocols"
    return table(caption, headings, plain_rows(groups))
