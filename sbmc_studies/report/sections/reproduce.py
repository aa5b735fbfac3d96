"""How to make the runs again, and this page."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from sbmc.report.markup import Html, cut, el, join
from sbmc_studies.report.commands import command
from sbmc_studies.report.view import Section, View


def build(view: View) -> Section | None:
    """A command for each setting; None if nothing completed."""
    settings = view.study.settings
    if not settings:
        return None
    shown = settings[: view.limits.rows]
    commands = [(each, command(view.study, each)) for each in shown]
    items = [
        el("li", el("span", each.label), el("pre", el("code", cut(line, 600)), tabindex="0"))
        for each, line in commands
        if line
    ]
    lost = [each.label for each, line in commands if line is None]
    parts: list[Html | None] = [
        el(
            "p",
            "Each line makes the runs of one setting again; it was checked to resolve to the same "
            "settings. Runs that are there already are not run twice, and those that were stopped "
            "go on. The same settings and seed give the same bits with the same versions.",
        )
    ]
    if items:
        lines = el("ol", *items, class_="commands")
        many = len(items) > 12
        summary = el("summary", f"Commands of {len(items)} settings")
        parts.append(el("details", summary, lines) if many else lines)
    if lost:
        words = cut(", ".join(lost), 600)
        parts.append(el("p", f"No command of this version makes: {words}.", class_="note"))
    parts.append(view.omitted(len(shown), len(settings)))
    return Section("reproduce", "How to reproduce it", join(parts))


def report_command(places: Sequence[str]) -> str:
    """The command that makes this page."""
    return cut(shlex.join(["sbmc", "report", *places]), 600)
