"""The page: all studies in one HTML file that fetches nothing, and never more than 2 MB of it."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from string import Template

from sbmc import __version__
from sbmc.progress import Bar, open_progress
from sbmc.report.limits import MOST_BYTES, Limits
from sbmc.report.markup import Html, cut, el, escape, join
from sbmc.report.numbers import count, percent, short
from sbmc.report.tables import Cell, plain_rows, table
from sbmc_studies.report.collect import Collection, collect
from sbmc_studies.report.sections import (
    ablation,
    answer,
    appendix,
    budget,
    claims,
    confusion,
    diagnostics,
    entropy,
    examples,
    overview,
    reliability,
    reproduce,
    results,
    risk,
    roc,
    settings,
    spider,
    toy,
)
from sbmc_studies.report.view import Section, View, best_setting

# In the order of the page. Each makes a section of a study, or None if it has nothing to do there.
SECTIONS = (
    overview,
    results,
    claims,
    toy,
    entropy,
    examples,
    roc,
    confusion,
    risk,
    reliability,
    spider,
    ablation,
    budget,
    appendix,
    diagnostics,
    settings,
    reproduce,
)
# Sections about abstaining; the toy study and studies without inputs out of domain have none.
_OF_ABSTENTION = (roc, confusion, risk, reliability, spider)


def write_report(
    places: Sequence[Path],
    out: Path,
    *,
    title: str | None = None,
    data_dir: Path | None = None,
    progress: bool | None = None,
) -> Collection:
    """Write the page of some runs, whole or not at all.

    Args:
        places: folders with records, at any height.
        out: the HTML file.
        title: of the page; made from the experiments if not given.
        data_dir: where data sets are looked for first, for pictures and texts of inputs.
        progress: None shows a bar on a terminal once two seconds have passed, False nothing.

    Returns:
        What was found.

    Raises:
        BadInput: if a place is refused.
    """
    found = collect(places)
    words = [str(place) for place in places]
    page = render(found, words, title=title, data_dir=data_dir, progress=progress)
    out.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=out.parent, prefix=".report-", suffix=".html")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(page.encode("utf-8"))
        os.chmod(temporary, 0o644)
        os.replace(temporary, out)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return found


def render(
    found: Collection,
    places: Sequence[str],
    *,
    title: str | None = None,
    data_dir: Path | None = None,
    limits: Limits | None = None,
    most_bytes: int = MOST_BYTES,
    progress: bool | None = False,
) -> str:
    """Make the page: the same bytes for the same records.

    Args:
        found: what to show.
        places: the folders it was found in, as they were given.
        title: of the page.
        data_dir: where data sets are looked for first.
        limits: how much to show at most.
        most_bytes: with more than this, less and less is shown until it fits.
        progress: None shows a bar on a terminal once two seconds have passed, False nothing.

    Returns:
        The page.
    """
    limits = limits or Limits()
    while True:
        total = len(SECTIONS) * min(len(found.studies), limits.experiments)
        with open_progress(progress, "report", total=total, unit="sections") as bar:
            page = _page(found, places, title, data_dir, limits, bar)
        if len(page.encode("utf-8")) <= most_bytes or limits == limits.tighter():
            return page
        limits = limits.tighter()


def _page(
    found: Collection,
    places: Sequence[str],
    title: str | None,
    data_dir: Path | None,
    limits: Limits,
    bar: Bar,
) -> str:
    studies = found.studies[: limits.experiments]
    # Many experiments share the page.
    each = limits if len(studies) < 4 else replace(limits, rows=max(1, limits.rows // 2))
    views = [View(study, each, i, data_dir) for i, study in enumerate(studies, 1)]
    parts = [(view, _sections(view, bar)) for view in views]
    heading = cut(title, 120) if title else _title(found)
    style, script = _asset("report.css"), _asset("report.js")
    policy = (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    )
    return Template(_asset("page.html")).substitute(
        title=escape(heading),
        policy=policy,
        style=style,
        script=script,
        lead=escape(_lead(found)),
        contents=_contents(parts),
        overview=_overview(found, views) if len(found.studies) > 1 else "",
        studies=join(_study(view, sections, len(parts) == 1) for view, sections in parts),
        unread=_unread(found, limits),
        command=escape(reproduce.report_command(places)),
        version=escape(__version__),
    )


def _sections(view: View, bar: Bar) -> list[Section]:
    abstains = best_setting(view.study.settings) is not None and view.abstains
    made = []
    for done, maker in enumerate(SECTIONS):
        bar.update(len(SECTIONS) * (view.number - 1) + done, study=cut(view.study.name, 20))
        if abstains or maker not in _OF_ABSTENTION:
            made.append(maker.build(view))
    return [section for section in made if section is not None]


def _study(view: View, sections: Sequence[Section], alone: bool) -> Html:
    name = view.name("study")
    title = el("h2", "The answer" if alone else cut(view.study.name, 80), id=name)
    kind = el("p", overview.title_of(view.study), class_="kind")
    # Without names of their own, which would make landmarks of them: too many to be of use.
    parts = [
        el("section", el("h3", section.title, id=view.name(section.name)), section.body)
        for section in sections
    ]
    return el("section", title, kind, answer.build(view), *parts, aria_labelledby=name)


def _contents(parts: Sequence[tuple[View, Sequence[Section]]]) -> Html:
    entries = []
    for view, sections in parts:
        links = [
            el("li", el("a", section.title, href=f"#{view.name(section.name)}"))
            for section in sections
        ]
        words = "The answer" if len(parts) == 1 else cut(view.study.name, 80)
        own = el("a", words, href=f"#{view.name('study')}")
        entries.append(el("li", own, el("ul", *links)))
    return el("ul", *entries)


def _overview(found: Collection, views: Sequence[View]) -> Html:
    rows = []
    for view in views:
        study = view.study
        best = best_setting(study.settings)
        right = best.value("accuracy") if best else None
        nll = best.value("nll") if best else None
        link = el("a", cut(study.name, 80), href=f"#{view.name('study')}")
        cells: list[object] = [Cell(link, study.name[:80])]
        cells += [Cell(n, n) for n in (len(study.settings), len(study.runs), len(study.others))]
        cells += [best.label if best else "–", Cell(percent(right), right), Cell(short(nll), nll)]
        rows.append(cells)
    headings = (
        *("Experiment", "settings", "runs", "not completed"),
        *("setting of lowest NLL", "its accuracy", "its NLL"),
    )
    there, shown = len(found.studies), len(views)
    note = el("p", f"{shown} of {there} experiments have sections below.", class_="note")
    title = el("h2", "All experiments", id="all")
    body = join((table("Experiments of this report", headings, plain_rows(rows)),))
    return el("section", title, body, note if shown < there else None, aria_labelledby="all")


def _unread(found: Collection, limits: Limits) -> Html:
    if not found.unreadable:
        return Html("")
    shown = found.unreadable[: limits.keys]
    rows = [[el("code", cut(path, 200)), cut(why, 300)] for path, why in shown]
    words = f"{count(len(found.unreadable), 'file')} could not be read and are left out"
    made = table(words, ("File", "What is wrong with it"), plain_rows(rows))
    title = el("h2", "Left out", id="left-out")
    return el("section", title, made, aria_labelledby="left-out")


def _title(found: Collection) -> str:
    names = [study.name for study in found.studies]
    if len(names) > 4:
        return f"{len(names)} experiments"
    return cut(" and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names), 100)


def _lead(found: Collection) -> str:
    runs = sum(len(study.runs) for study in found.studies)
    settings_ = sum(len(study.settings) for study in found.studies)
    words = f"{count(runs, 'completed run')} of {count(settings_, 'setting')}"
    if len(found.studies) > 1:
        words += f" in {count(len(found.studies), 'experiment')}"
    return words


def _asset(name: str) -> str:
    return resources.files("sbmc.report").joinpath(name).read_text("utf-8")


def _digest(content: str) -> str:
    # As the browser sees it: the element's text, to the byte.
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")
