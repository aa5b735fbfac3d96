"""Settings, versions and cost: everything that decided the numbers, and what they took."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sbmc.report.markup import Html, cut, el, join
from sbmc.report.numbers import MISSING, count, seconds, short
from sbmc.report.page import Section
from sbmc.report.tables import Cell, facts, plain_rows, table
from sbmc_studies.report.collect import Setting
from sbmc_studies.report.study_view import StudyView

_MOST = 160


def build(view: StudyView) -> Section | None:
    """The section; None if nothing completed."""
    settings = view.study.settings
    if not settings:
        return None
    body = (_common(view, settings), _varied(view, settings), _cost(view), _machines(view))
    return Section("settings", "Settings, versions, cost", join(body))


def _common(view: StudyView, settings: Sequence[Setting]) -> Html:
    first = settings[0].record.settings
    names = [
        name
        for name, value in first.items()
        if value is not None and all(_same(each.record.settings, name, value) for each in settings)
    ]
    shown = names[: view.limits.keys]
    pairs = [(el("code", cut(name, 60)), _text(first[name])) for name in shown]
    if not pairs:
        return el("p", "No setting is the same in all runs.")
    title = "Settings of all runs" if len(settings) > 1 else "Settings"
    return join((el("h4", title), facts(pairs), view.omitted(len(shown), len(names))))


def _varied(view: StudyView, settings: Sequence[Setting]) -> Html | None:
    if len(settings) < 2:
        return None
    names = dict.fromkeys(name for each in settings for name in each.record.settings)
    varied = [
        name
        for name in names
        if len({_text(each.record.settings.get(name)) for each in settings}) > 1
    ][: view.limits.keys]
    if not varied:
        return None
    rows = []
    for each in settings[: view.limits.rows]:
        settings_of_run = each.record.settings
        text = ", ".join(
            f"{cut(name, 40)}\u00a0=\u00a0{_text(settings_of_run[name])}"
            for name in varied
            if settings_of_run.get(name) is not None
        )
        rows.append([each.label, cut(text, 1200), el("code", each.record.hash)])
    differing = table("Settings that differ", ("Setting", "its own", "hash"), plain_rows(rows))
    summary = el("summary", f"Settings that differ ({count(len(varied), 'name')})")
    return el("details", summary, differing)


def _cost(view: StudyView) -> Html:
    rows = []
    for each in view.study.settings[: view.limits.rows]:
        cost = each.pooled.cost
        spent, total = cost.get("wall_seconds"), cost.get("total_epochs")
        cells = [
            Cell(short(cost.get(name)), cost.get(name))
            for name in ("epochs", "anchor_epochs", "total_epochs")
        ]
        per = spent / total if spent and total else None
        each_epoch = MISSING if per is None else f"{1000 * per:.3g}"
        rows.append([each.label, *cells, Cell(seconds(spent), spent), Cell(each_epoch, per)])
    headings = (
        *("Setting", "epochs a chain", "epochs of the anchor", "epochs in all"),
        *("wall time", "ms an epoch"),
    )
    note = "A dash: first islands of a larger run, whose time was not measured on their own."
    costs = table("Cost, mean over seeds", headings, plain_rows(rows))
    return join((el("h4", "Cost"), costs, el("p", note, class_="note")))


def _machines(view: StudyView) -> Html:
    kinds: dict[str, int] = {}
    for run in view.study.runs:
        content = {**run.record.versions, **run.record.hardware}
        key = json.dumps(content, sort_keys=True, default=str)
        kinds[key] = kinds.get(key, 0) + 1
    most = min(8, view.limits.keys)
    parts: list[Html | None] = [el("h4", "Versions and machines")]
    for key, runs in sorted(kinds.items(), key=lambda each: (-each[1], each[0]))[:most]:
        content = json.loads(key)
        pairs = [(cut(name, 40), _text(value)) for name, value in list(content.items())[:40]]
        parts.append(
            el("div", el("p", el("b", count(runs, "run"))), facts(pairs), class_="machine")
        )
    parts.append(view.omitted(min(most, len(kinds)), len(kinds), "kind"))
    return join(parts)


def _same(settings: Mapping[str, Any], name: str, value: Any) -> bool:
    return name in settings and _text(settings[name]) == _text(value)


def _text(value: Any) -> str:
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.8g}"
    if isinstance(value, list | tuple):
        return cut(", ".join(_text(each) for each in value[:40]), _MOST)
    return cut(value, _MOST)
