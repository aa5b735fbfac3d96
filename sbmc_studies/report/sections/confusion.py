"""Confusion rates of "answer or abstain", at two thresholds."""

from __future__ import annotations

from sbmc.report.charts.heat import heat_map
from sbmc.report.figure import figure, grid
from sbmc.report.markup import Html, el, join
from sbmc.report.tables import number, plain_rows, table
from sbmc_studies.figures.confusion import confusion_rates
from sbmc_studies.report.view import Section, View, missing

_RULES = {"default": "threshold 0.5", "optimal_f1": "F1-optimal threshold"}
_COLUMNS = ("answered", "abstained", "answered", "abstained")
_ABOVE = (("answer right", 2), ("wrong, or out of domain", 2))
_HEADINGS = (
    "Setting",
    *("right: answered", "right: abstained", "wrong or OOD: answered", "wrong or OOD: abstained"),
)


def build(view: View) -> Section:
    """Both maps, or the command that would give them."""
    title = "Confusion rates"
    if view.measured is None:
        words = "No run here counted its decisions to answer or abstain. They come with"
        return Section("confusion", title, missing(words, view.confidence_command))
    intro = (
        "What becomes of right answers, and of inputs whose answer would be wrong or that are out "
        "of domain. A perfect ensemble has 1 in the first and the last column."
    )
    figures = [_map(view, rule, words) for rule, words in _RULES.items()]
    return Section("confusion", title, join((el("p", intro), grid(*figures))))


def _map(view: View, rule: str, words: str) -> Html:
    assert view.measured is not None
    measurements, looks = view.measured
    rows, cells, told = [], [], []
    for row, look in zip(measurements.rows, looks, strict=True):
        means, errors = confusion_rates(row, rule)
        rates = [float(v) for v in means.ravel()]
        several = len(row.arrays) > 1
        texts = [
            f"{rate:.2f}" + (f" ±{float(error):.2f}" if several else "")
            for rate, error in zip(rates, errors.ravel(), strict=True)
        ]
        rows.append((look.label, list(zip(rates, texts, strict=True))))
        cells.append([look.label, *(number(rate) for rate in rates)])
        told.append(
            f"{look.label} answers {rates[0]:.0%} of right, abstains from {rates[3]:.0%} of bad"
        )
    title = f"Confusion rates, {words}"
    return figure(
        title,
        "Shares within each pair of columns, mean over seeds"
        + (" ± standard error." if any(len(row.arrays) > 1 for row in measurements.rows) else "."),
        heat_map(rows, _COLUMNS, above=_ABOVE, alt=f"{title}: {'; '.join(told)}."),
        table(title, _HEADINGS, plain_rows(cells)),
    )
