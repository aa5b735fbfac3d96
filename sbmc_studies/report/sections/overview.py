"""What was run and how: data, network, methods, seeds; and what did not complete."""

from __future__ import annotations

from sbmc.report.markup import Html, cut, el, join
from sbmc.report.numbers import count, seconds
from sbmc.report.page import Section
from sbmc.report.tables import facts, plain_rows, table
from sbmc_studies.experiments.methods import METHODS, method_label
from sbmc_studies.report.collect import Study
from sbmc_studies.report.study_view import StudyView

# A longer list would keep readers from the results.
_FOLD = 6
_TOY = "two modes in one dimension: what s and a cold posterior do to long chains"


def build(view: StudyView) -> Section:
    """What was run."""
    study = view.study
    runs = study.runs
    seeds = sorted({run.record.seed for run in runs})
    data = sorted({(str(r.record.data["name"]), str(r.record.data["checksum"])) for r in runs})
    spent = [run.record.cost["wall_seconds"] for run in runs]
    measured = [value for value in spent if value is not None]
    derived = sum(run.record.derived_from is not None for run in runs)
    pairs: list[tuple[object, object]] = [
        ("Runs", _count_runs(study, len(runs), derived)),
        ("Seeds", cut(", ".join(map(str, seeds)), 120)),
    ]
    if data:
        shown = [
            join((cut(name, 60), " ", el("code", cut(digest, 12), title=cut(digest, 64))))
            for name, digest in data[:6]
        ]
        pairs.append(("Data set, checksum", join(shown, ", ")))
    networks = sorted({cut(run.record.settings.get("network") or "", 60) for run in runs} - {""})
    if networks:
        pairs.append(("Network", cut(", ".join(networks), 160)))
    if measured:
        pairs.append(("Time measured", f"{seconds(sum(measured))} in all"))
    rows = []
    for method in list(dict.fromkeys(setting.method for setting in study.settings)):
        known = METHODS.get(method)
        settings = study.find(method)
        rows.append(
            (
                method_label(method),
                el("code", cut(method, 40)),
                cut(known.description, 200) if known else "not known to this version",
                len(settings),
                sum(len(setting.runs) for setting in settings),
            )
        )
    most = view.limits.rows
    headings = ("Method", "Name", "What it is", "Settings", "Runs")
    methods = table(
        "Methods that were run", headings, plain_rows(rows[:most]), sortable=False, class_="methods"
    )
    if len(rows) > _FOLD:
        methods = el("details", el("summary", f"Methods that were run ({len(rows)})"), methods)
    body = [facts(pairs), methods if rows else None]
    body.append(view.omitted(min(most, len(rows)), len(rows), "method"))
    return Section("run", "What was run and how", join([*body, *_others(view)]))


def title_of(study: Study) -> str:
    """A line about the experiment."""
    if study.experiment:
        return study.experiment.title
    return _TOY if study.name == "toy" else "An experiment that this version does not know by name."


def _count_runs(study: Study, runs: int, derived: int) -> str:
    text = f"{count(runs, 'completed run')} of {count(len(study.settings), 'setting')}"
    if derived:
        text += f", {derived:,} of them the first islands of a larger run"
    return text


def _others(view: StudyView) -> list[Html | None]:
    others = view.study.others
    if not others:
        return []
    rows = [
        (
            method_label(run.record.method),
            run.record.seed,
            run.record.outcome,
            cut(run.record.message or _failures(run.record.islands), 240),
        )
        for run in others[: view.limits.rows]
    ]
    caption = "Runs without a result that could stand in a table"
    failures = table(caption, ("Method", "Seed", "Outcome", "Why"), plain_rows(rows))
    return [failures, view.omitted(len(rows), len(others), "run")]


def _failures(islands: list) -> str:
    failed = [i for i in islands if isinstance(i, dict) and i.get("outcome") != "completed"]
    text = f"{count(len(failed), 'island')} of {len(islands)} did not complete"
    return f"{text}: {failed[0].get('message') or 'no reason given'}" if failed else text
