"""The tables of the paper's appendix, ours beside the paper's, folded."""

from __future__ import annotations

from sbmc.report.markup import Html, cut, el, join
from sbmc.report.numbers import count
from sbmc.report.tables import table
from sbmc_studies.paper.tables import appendix, confidence, groups, times
from sbmc_studies.report.paper_tables import OURS, Made, paper_tables
from sbmc_studies.report.view import Section, View


def build(view: View) -> Section | None:
    """The tables that these runs fill; None if they fill none."""
    made = paper_tables(view.study)
    shown = made[: view.limits.tables]
    if not shown:
        return None
    theirs = sum(each.label != OURS for each in made)
    words = f"{count(theirs, 'table')} of the paper" if theirs else count(len(made), "table")
    words += f" and {len(made) - theirs} of our own, as " if 0 < theirs < len(made) else ", as "
    intro = el(
        "p",
        words,
        el("code", f"sbmc table {view.study.name}"),
        " prints them, from these runs alone. Settings without a run have dashes.",
    )
    parts: list[Html | None] = [intro, *(_folded(view, each) for each in shown)]
    parts.append(view.omitted(len(shown), len(made), "table"))
    parts.append(_notes(made))
    title = "The paper’s tables, from these runs" if theirs else "Further tables"
    return Section("appendix", title, join(parts))


def _folded(view: View, made: Made) -> Html:
    # "v = 1, growing s" begins with a symbol, which has no capital.
    word = made.title[1:2].isalpha()
    title = made.title[0].upper() + made.title[1:] if word else made.title
    most = view.limits.rows
    groups = made.groups[:most]
    own = el("span", f" ({made.label})", class_="label")
    caption = cut(f"{view.study.name}: {made.title} ({made.label})", 160)
    return el(
        "details",
        el("summary", title, own),
        table(caption, made.headings, groups, class_="results"),
        view.omitted(len(groups), len(made.groups), "line"),
        class_="more",
    )


def _notes(made: list[Made]) -> Html:
    headings = {heading for each in made for heading in each.headings}
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
