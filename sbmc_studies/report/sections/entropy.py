"""Entropy by group: what the ensemble is unsure about, and in which way."""

from __future__ import annotations

from sbmc.report.figure import render_figures
from sbmc.report.markup import el, join
from sbmc.report.page import Section
from sbmc_studies.figures.entropies import (
    GroupEntropies,
    class_figure,
    group_figure,
    group_names,
    paper_totals,
)
from sbmc_studies.report.study_view import StudyView

_INTRO = (
    "Total entropy splits in two: what is left when all members agree that the input is ambiguous "
    "(aleatoric), and how much the members disagree (epistemic). A good ensemble disagrees on its "
    "mistakes and on inputs unlike its training data, and nowhere else."
)


def build(view: StudyView) -> Section | None:
    """The entropies by group and by class; None if no run has entropies."""
    rows = [
        GroupEntropies(
            style,
            setting.pooled.values,
            paper_totals(view.study.name, setting.method, setting.islands)
            if setting.in_paper
            else {},
        )
        for setting, style in view.drawn
        if group_names(setting.pooled.values)
    ]
    if not rows:
        return None
    by_class = class_figure(view.comparison, view.limits) if view.comparison else None
    body = [
        el("p", _INTRO),
        render_figures(group_figure(rows, view.limits), by_class),
        view.omitted(len(rows), len(view.study.settings)),
    ]
    return Section("entropy", "Entropy by group", join(body))
