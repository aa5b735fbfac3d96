"""The tables of the paper's appendix, ours beside the paper's, folded."""

from __future__ import annotations

from sbmc.report.markup import Html, cut, el, join
from sbmc.report.numbers import count
from sbmc.report.page import Section
from sbmc.report.tables import table
from sbmc_studies.paper.tables import appendix, confidence, groups, times
from sbmc_studies.report.paper_tables import OURS, FilledTable, paper_tables
from sbmc_studies.report.study_view import StudyView


def build(view: StudyView) -> Section | None:
    """The tables that these runs fill; None if they fill none."""
    tables = paper_tables(view.study)
    shown = tables[: view.limits.tables]
    if not shown:
        return None
    printed = sum(each.label != OURS for each in tables)
    number = f"{count(printed, 'table')} of the paper" if printed else count(len(tables), "table")
    number += f" and {len(tables) - printed} of our own" if 0 < printed < len(tables) else ""
    intro = el(
        "p",
        f"{number}, as ",
        el("code", f"sbmc table {view.study.name}"),
        " prints them, from these runs alone. Settings without a run have dashes.",
    )
    parts: list[Html | None] = [intro, *(_folded(view, each) for each in shown)]
    parts.append(view.omitted(len(shown), len(tables), "table"))
    parts.append(_notes(tables))
    title = "The paper’s tables, from these runs" if printed else "Further tables"
    return Section("appendix", title, join(parts))


def _folded(view: StudyView, filled: FilledTable) -> Html:
    # "v = 1, growing s" begins with a symbol, which stays small.
    is_word = filled.title[1:2].isalpha()
    title = filled.title[0].upper() + filled.title[1:] if is_word else filled.title
    most = view.limits.rows
    groups = filled.groups[:most]
    label = el("span", f" ({filled.label})", class_="label")
    caption = cut(f"{view.study.name}: {filled.title} ({filled.label})", 160)
    return el(
        "details",
        el("summary", title, label),
        table(caption, filled.headings, groups, class_="results"),
        view.omitted(len(groups), len(filled.groups), "line"),
        class_="more",
    )


def _notes(tables: list[FilledTable]) -> Html:
    headings = {heading for each in tables for heading in each.headings}
    notes = []
    if "epochs" in headings:
        notes.append(appendix.FOOTNOTE)
    if "group" in headings:
        notes.append(groups.FOOTNOTE)
    if headings & {"AUC-ROC", "max p: AUROC"}:
        notes.append(confidence.FOOTNOTE)
    if "matched" in headings:
        notes.append(times.FOOTNOTE)
    entries = [el("p", note, class_="note") for note in notes]
    return el("details", el("summary", "How to read these tables"), *entries, class_="more")
