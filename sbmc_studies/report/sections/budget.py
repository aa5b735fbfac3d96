"""What a budget buys: error, NLL and epistemic entropy against epochs per chain."""

from __future__ import annotations

from sbmc.report.figure import render_figures
from sbmc.report.markup import el, join
from sbmc.report.page import Section
from sbmc_studies.figures import epochs
from sbmc_studies.report.study_runs import StudyRuns
from sbmc_studies.report.study_view import StudyView

_INTRO = "The same methods with more and more epochs for each chain; the x axes are logarithmic."


def build(view: StudyView) -> Section | None:
    """The figures of `sbmc figure NAME epochs`; None if no curve has two points."""
    experiment = view.study.experiment
    if experiment is None:
        return None
    all_series = epochs.find_series(experiment, StudyRuns(view.study))
    series = [each for each in all_series if len(each.points) > 1]
    if not series:
        return None
    figures = epochs.build(experiment.name, series, view.limits)
    return Section(
        "budget", "What a budget buys", join((el("p", _INTRO), render_figures(*figures)))
    )
