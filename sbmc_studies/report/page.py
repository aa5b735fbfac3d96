"""The page of some runs: a part for each experiment, made from records alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sbmc.progress import Bar, open_progress
from sbmc.report.limits import MOST_BYTES, Limits
from sbmc.report.markup import Html, cut, el, join
from sbmc.report.numbers import count, percent, short
from sbmc.report.page import Part, Section, fit_page, fold_lacking, render_page, write_page
from sbmc.report.tables import Cell, plain_rows, table
from sbmc_studies.report.collect import Collection, collect
from sbmc_studies.report.sections import (
    ablation,
    abstention,
    answer,
    appendix,
    budget,
    claims,
    diagnostics,
    entropy,
    examples,
    overview,
    reproduce,
    results,
    settings,
    toy,
)
from sbmc_studies.report.study_view import StudyView, best_setting

# In the order of the page. Each makes a section of a study, or None if it has nothing to do there.
SECTIONS: tuple[Callable[[StudyView], Section | None], ...] = (
    overview.build,
    results.build,
    claims.build,
    toy.build,
    entropy.build,
    examples.build,
    abstention.ROC.build,
    abstention.CONFUSION.build,
    abstention.RISK.build,
    abstention.RELIABILITY.build,
    abstention.build_spider,
    ablation.build,
    budget.build,
    appendix.build,
    diagnostics.build,
    settings.build,
    reproduce.build,
)


def write_report(
    folders: Sequence[Path],
    out: Path,
    *,
    title: str | None = None,
    data_dir: Path | None = None,
    progress: bool | None = None,
) -> Collection:
    """Write the page of some runs, whole or not at all.

    Args:
        folders: folders with records, at any height.
        out: the HTML file.
        title: of the page; made from the experiments if not given.
        data_dir: where data sets are looked for first, for pictures and texts of inputs.
        progress: None shows a bar on a terminal once two seconds have passed, False nothing.

    Returns:
        What the page is made from.

    Raises:
        BadInput: if a folder is refused.
    """
    collection = collect(folders)
    names = [str(folder) for folder in folders]
    page = render(collection, names, title=title, data_dir=data_dir, progress=progress)
    write_page(page, out)
    return collection


def render(
    collection: Collection,
    folders: Sequence[str],
    *,
    title: str | None = None,
    data_dir: Path | None = None,
    limits: Limits | None = None,
    most_bytes: int = MOST_BYTES,
    progress: bool | None = False,
) -> str:
    """Make the page: the same bytes for the same records.

    Args:
        collection: what to show.
        folders: where it was found, as the user wrote it.
        title: of the page.
        data_dir: where data sets are looked for first.
        limits: how much to show at most.
        most_bytes: with more than this, less and less is shown until it fits.
        progress: None shows a bar on a terminal once two seconds have passed, False nothing.

    Returns:
        The page.
    """

    def build(limits: Limits) -> str:
        total = len(SECTIONS) * min(len(collection.studies), limits.experiments)
        with open_progress(progress, "report", total=total, unit="sections") as bar:
            return _page(collection, folders, title, data_dir, limits, bar)

    return fit_page(build, limits, most_bytes)


def _page(
    collection: Collection,
    folders: Sequence[str],
    title: str | None,
    data_dir: Path | None,
    limits: Limits,
    bar: Bar,
) -> str:
    studies = collection.studies[: limits.experiments]
    # Many experiments share the page.
    each = limits if len(studies) < 4 else replace(limits, rows=max(1, limits.rows // 2))
    views = [StudyView(study, each, i, data_dir) for i, study in enumerate(studies, 1)]
    return render_page(
        cut(title, 120) if title else _title(collection),
        _lead(collection),
        [_part(view, len(views) == 1, bar) for view in views],
        before=_overview(collection, views) if len(collection.studies) > 1 else None,
        after=_unreadable(collection, limits),
        command=reproduce.report_command(folders),
    )


def _part(view: StudyView, alone: bool, bar: Bar) -> Part:
    sections = []
    for done, build in enumerate(SECTIONS):
        bar.update(len(SECTIONS) * (view.number - 1) + done, study=cut(view.study.name, 20))
        sections.append(build(view))
    kind = el("p", overview.title_of(view.study), class_="kind")
    return Part(
        view.anchor,
        "The answer" if alone else cut(view.study.name, 80),
        join((kind, answer.build(view))),
        fold_lacking([section for section in sections if section is not None]),
    )


def _overview(collection: Collection, views: Sequence[StudyView]) -> Html:
    rows = []
    for view in views:
        study = view.study
        best = best_setting(study.settings)
        accuracy = best.value("accuracy") if best else None
        nll = best.value("nll") if best else None
        link = el("a", cut(study.name, 80), href=f"#{view.anchor}")
        cells: list[object] = [Cell(link, study.name[:80])]
        cells += [Cell(n, n) for n in (len(study.settings), len(study.runs), len(study.others))]
        cells.append(best.label if best else "–")
        cells += [Cell(percent(accuracy), accuracy), Cell(short(nll), nll)]
        rows.append(cells)
    headings = (
        *("Experiment", "settings", "runs", "not completed"),
        *("setting of lowest NLL", "its accuracy", "its NLL"),
    )
    total, shown = len(collection.studies), len(views)
    note = el("p", f"{shown} of {total} experiments have sections below.", class_="note")
    title = el("h2", "All experiments", id="all")
    body = table("Experiments of this report", headings, plain_rows(rows))
    return el("section", title, body, note if shown < total else None, aria_labelledby="all")


def _unreadable(collection: Collection, limits: Limits) -> Html | None:
    if not collection.unreadable:
        return None
    shown = collection.unreadable[: limits.keys]
    rows = [[el("code", cut(path, 200)), cut(why, 300)] for path, why in shown]
    caption = f"{count(len(collection.unreadable), 'file')} could not be read and are left out"
    files = table(caption, ("File", "What is wrong with it"), plain_rows(rows))
    title = el("h2", "Left out", id="left-out")
    return el("section", title, files, aria_labelledby="left-out")


def _title(collection: Collection) -> str:
    names = [study.name for study in collection.studies]
    if len(names) > 4:
        return f"{len(names)} experiments"
    return cut(" and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names), 100)


def _lead(collection: Collection) -> str:
    runs = sum(len(study.runs) for study in collection.studies)
    settings_ = sum(len(study.settings) for study in collection.studies)
    lead = f"{count(runs, 'completed run')} of {count(settings_, 'setting')}"
    if len(collection.studies) > 1:
        lead += f" in {count(len(collection.studies), 'experiment')}"
    return lead
