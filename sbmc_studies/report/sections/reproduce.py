"""How to make the runs again, and this page."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from sbmc.report.markup import Html, cut, el, join
from sbmc.report.page import Section
from sbmc_studies.report.rerun_command import rerun_command
from sbmc_studies.report.study_view import StudyView


def build(view: StudyView) -> Section | None:
    """A command for each setting; None if nothing completed."""
    settings = view.study.settings
    if not settings:
        return None
    shown = settings[: view.limits.rows]
    commands = [(each, rerun_command(view.study, each)) for each in shown]
    items = [
        el("li", el("span", each.label), el("pre", el("code", cut(line, 600)), tabindex="0"))
        for each, line in commands
        if line
    ]
    without_command = [each.label for each, line in commands if line is None]
    parts: list[Html | None] = [
        el(
            "p",
            "Each line makes the runs of one setting again; it was checked to resolve to the same "
            "settings. Runs that are complete are not run twice, and runs that were stopped are "
            "resumed. The same settings and seed give the same bits with the same versions.",
        )
    ]
    if items:
        lines = el("ol", *items, class_="commands")
        many = len(items) > 12
        summary = el("summary", f"Commands of {len(items)} settings")
        parts.append(el("details", summary, lines) if many else lines)
    if without_command:
        names = cut(", ".join(without_command), 600)
        parts.append(el("p", f"No command of this version makes: {names}.", class_="note"))
    parts.append(view.omitted(len(shown), len(settings)))
    return Section("reproduce", "How to reproduce it", join(parts))


def report_command(folders: Sequence[str]) -> str:
    """The command that makes this page."""
    return cut(shlex.join(["sbmc", "report", *folders]), 600)
