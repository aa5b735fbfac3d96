"""Sections about abstaining: figures of the meta-classifier, or the command that gives them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sbmc.checks import BadInput
from sbmc.report.figure import Figure, render_figures
from sbmc.report.limits import Limits
from sbmc.report.markup import Html, el, join
from sbmc.report.numbers import with_error
from sbmc.report.page import Section
from sbmc.report.tables import Cell, number, plain_rows, table
from sbmc_studies.figures import confusion, reliability, risk_coverage, roc, spider, thresholds
from sbmc_studies.figures.comparison import PAPER, Comparison
from sbmc_studies.report.study_view import StudyView, lacking_section

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


@dataclass(frozen=True)
class FigureSection:
    """A section that is an introduction and some figures of the meta-classifier.

    Attributes:
        name: for links.
        title: its heading.
        intro: how to read the figures.
        lacking: what to say where no run has the arrays that they are drawn from.
        figures: what to draw.
        table: a table to put below them.
    """

    name: str
    title: str
    intro: str
    lacking: str
    figures: tuple[Callable[[Comparison, Limits], list[Figure]], ...]
    table: Callable[[StudyView], Html | None] = lambda view: None

    def build(self, view: StudyView) -> Section | None:
        """The figures; None where there is nothing to abstain from."""
        if not view.abstains:
            return None
        if view.comparison is None:
            command = view.confidence_command
            return lacking_section(self.name, self.title, self.lacking, command)
        figures = [each for make in self.figures for each in make(view.comparison, view.limits)]
        body = (el("p", self.intro), render_figures(*figures), self.table(view))
        return Section(self.name, self.title, join(body))


def _decisions(view: StudyView) -> Html | None:
    """A row for each setting and protocol that has the metrics."""
    rows = []
    for setting in view.study.settings[: view.limits.rows]:
        for protocol, name in ((PAPER, "paper’s"), ("clean", "clean")):
            start = "confidence." if protocol == PAPER else f"confidence.{protocol}."
            values = [setting.value(start + metric) for metric, _, _ in _COLUMNS]
            if all(value is None for value in values):
                continue
            cells: list[object] = [setting.label, name]
            for (metric, _, digits), value in zip(_COLUMNS, values, strict=True):
                error = setting.error(start + metric)
                cells.append(Cell(with_error(value, error, metric, digits), value))
            rows.append(cells)
    if not rows:
        return None
    headings = ("Setting", "protocol", *(heading for _, heading, _ in _COLUMNS))
    return table("The decision to answer or abstain, in both protocols", headings, plain_rows(rows))


def _exact_measures(view: StudyView) -> Html:
    """What the axes of the spider plot show, before it is divided by the best."""
    assert view.comparison is not None
    headings = ("Setting", *(" ".join(name.split()) for _, name, _ in spider.AXES))
    rows = [
        [
            row.style.label,
            *(number(view.comparison.metric(row, name)) for name, _, _ in spider.AXES),
        ]
        for row in view.comparison.rows
    ]
    return table("What the axes show, before it is divided", headings, plain_rows(rows))


def build_spider(view: StudyView) -> Section | None:
    """The spider plot, which needs two settings with all measures."""
    comparison = view.comparison
    if comparison is None or not view.abstains:
        return SPIDER.build(view)
    if len(comparison.rows) < 2:
        text = "The spider plot compares settings, and only one here has all its measures. Add"
        command = f"{view.confidence_command} --method map,de"
        return lacking_section(SPIDER.name, SPIDER.title, text, command)
    try:
        return SPIDER.build(view)
    except (KeyError, BadInput):
        text = "These records lack some of the measures of the spider plot. Make them anew with"
        command = f"{view.confidence_command} --force"
        return lacking_section(SPIDER.name, SPIDER.title, text, command)


ROC = FigureSection(
    "abstention",
    "ROC, and accuracy with abstention",
    "A small classifier looks at the ensemble’s prediction and its entropies and scores how likely "
    "the answer is wrong or the input out of domain; above a threshold the ensemble abstains. Half "
    "of the inputs here are out of domain. Curves are means over seeds, in the paper’s protocol.",
    "No run here trained the classifier that says when to abstain. Make some with",
    (roc.build, thresholds.build),
    _decisions,
)
CONFUSION = FigureSection(
    "confusion",
    "Confusion rates",
    "What becomes of right answers, and of inputs whose answer would be wrong or that are out of "
    "domain (OOD). A perfect ensemble has 1 in the first and the last column.",
    "No run here counted its decisions to answer or abstain. They come with",
    (confusion.build,),
)
RISK = FigureSection(
    "risk",
    "Risk and coverage",
    "Inputs are answered in order of the score, the surest first. Coverage is the share that is "
    "answered, risk the share of those answers that are wrong. Lower is better, and the area under "
    "the curve (AURC) sums it up.",
    "No run here kept its risk–coverage curves. They come with",
    (risk_coverage.build,),
)
RELIABILITY = FigureSection(
    "reliability",
    "Reliability",
    "The bins of all seeds together. On the diagonal, what is said to happen with probability p "
    "happens in a share p of the cases; below it, the ensemble is too sure of itself.",
    "No run here kept its reliability bins. They come with",
    (reliability.build,),
)
SPIDER = FigureSection(
    "spider",
    "All measures at once",
    "Accuracy, calibration and the quality of abstention, side by side.",
    "The spider plot needs the measures of abstention. They come with",
    (spider.build,),
    _exact_measures,
)
