"""The toy study: densities for s and T, autocorrelations, and how long chains remember."""

from __future__ import annotations

from sbmc.report.figure import render_figures
from sbmc.report.markup import Html, el, join
from sbmc.report.page import Section
from sbmc.report.tables import number, plain_rows, table
from sbmc_studies.figures.toy import build as build_figures
from sbmc_studies.paper.toy import Toy, toy_verdicts
from sbmc_studies.report.study_view import StudyView
from sbmc_studies.report.toy_runs import read_toys


def build(view: StudyView) -> Section | None:
    """The figures of the first setting that has its curves; None if none has."""
    if view.study.name != "toy":
        return None
    for setting in view.study.settings:
        toys = read_toys(setting)
        if not toys:
            continue
        verdicts = [
            el(
                "li",
                el(
                    "span", "✓ holds" if v.holds else "✗ fails", class_="good" if v.holds else "bad"
                ),
                f" {v.statement}: {v.evidence}",
            )
            for v in toy_verdicts(toys)
        ]
        parts = [
            el("p", f"Curves of seed {toys[0].record.seed}; numbers are means over {len(toys)}."),
            el("ul", *verdicts, class_="claims"),
            render_figures(*build_figures(toys[0], view.limits)),
            _table(toys),
        ]
        return Section("toy", "What s and T do to a target with two modes", join(parts))
    return None


def _table(toys: list[Toy]) -> Html:
    rows = []
    for family, name in (("s", "SBMC"), ("T", "cold posterior")):
        for case in toys[0].cases(family):
            iact, error, epochs, lower = (
                _mean(toys, f"{metric}.{case.name}")
                for metric in ("iact", "iact_se", "epochs_per_draw", "lower_mode")
            )
            price = iact * epochs if iact is not None and epochs is not None else None
            cells = [number(each) for each in (iact, error, epochs, price, lower)]
            rows.append([f"{name}, {family} = {case.value:g}", *cells])
    headings = (
        *("Target", "IACT, draws", "standard error of one run", "epochs a draw"),
        *("epochs for one independent draw", "share of draws in the lower mode"),
    )
    return table("How long NUTS chains remember", headings, plain_rows(rows))


def _mean(toys: list[Toy], name: str) -> float | None:
    values = [toy.record.metrics.get(name) for toy in toys]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
