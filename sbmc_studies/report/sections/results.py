"""The table of results, the paper's numbers beside ours, and the reasons where they differ."""

from __future__ import annotations

from sbmc.report.markup import Html, cut, el, join
from sbmc.report.numbers import MISSING, count, short, with_error
from sbmc.report.page import Section
from sbmc.report.tables import Cell, table
from sbmc_studies.paper.tables.columns import NOTES
from sbmc_studies.paper.tables.lines import Column
from sbmc_studies.report.collect import Study
from sbmc_studies.report.results_beside_paper import ResultLine, result_columns, result_lines
from sbmc_studies.report.study_view import StudyView


def build(view: StudyView) -> Section | None:
    """The table; None if no run has a result."""
    lines = [line for line in result_lines(view.study) if line.pooled.values]
    columns = result_columns(view.study)
    if not lines or not columns:
        return None
    most = view.limits.rows
    groups = [_group(line, columns) for line in lines[:most]]
    paper = any(line.paper for line in lines)
    headings = ["Setting", "P", "seeds", *(each.heading for each in columns)]
    headings += ["epochs", "total", "seconds"]
    caption = f"Results of {view.study.name}" + (", with the paper’s in grey" if paper else "")
    body = [
        el("p", _intro(view.study, columns, paper)),
        table(cut(caption, 120), headings, groups, class_="results"),
        view.omitted(len(groups), len(lines), "line"),
        el("p", NOTES[view.study.name], class_="note") if view.study.name in NOTES else None,
        _differences(lines[:most], columns),
    ]
    title = "Results beside the paper’s" if paper else "Results"
    return Section("results", title, join(body))


def _group(line: ResultLine, columns: list[Column]) -> list[list[object]]:
    setting, pooled = line.setting, line.pooled
    several = len(setting.runs) > 1
    cells: list[object] = [line.label]
    cells.append(Cell(setting.islands if setting.islands else MISSING, setting.islands))
    cells.append(Cell(len(setting.runs), len(setting.runs)))
    for metric, _, digits in columns:
        value, error = pooled.values.get(metric), pooled.errors.get(metric)
        text = with_error(value, error if several else None, metric, digits)
        cells.append(Cell(text, value))
    for name in ("epochs", "total_epochs", "wall_seconds"):
        spent = pooled.cost.get(name)
        cells.append(Cell(short(spent), spent))
    rows = [cells]
    if line.paper:
        printed: list[object] = [
            "the paper’s",
            Cell(line.paper.islands or MISSING, line.paper.islands),
            "",
        ]
        for metric, _, digits in columns:
            value, error = line.paper.values.get(metric), line.paper.errors.get(metric)
            good = line.agrees(metric)
            mark = "" if good is None else "\u00a0✓" if good else "\u00a0✗"
            note = None if good is None else "good" if good else "bad"
            text = with_error(value, error, metric, digits) + mark
            printed.append(Cell(text, value, note))
        spent_there = (line.paper.epochs, line.paper.total_epochs)
        printed += [*(Cell(short(each), each) for each in spent_there), Cell(MISSING)]
        rows.append(printed)
    return rows


def _intro(study: Study, columns: list[Column], paper: bool) -> str:
    seeds = {len(setting.runs) for setting in study.settings}
    intro = "One seed each. " if seeds == {1} else "Mean ± standard error over seeds. "
    metrics = {column.metric for column in columns}
    kinds = [
        f"{sign} is {kind} entropy in nats"
        for sign, kind in (("H_ep", "epistemic"), ("H_tot", "total"))
        if any(name.startswith(f"entropy.{kind}.") for name in metrics)
    ]
    if kinds:
        intro += f"{' and '.join(kinds)}, of test inputs that are classified correctly and "
        intro += "incorrectly"
        if any(".ood." in name for name in metrics):
            intro += ", and of inputs out of domain"
            intro += " (OOD); " if any(name.endswith("ood.all") for name in metrics) else "; "
        else:
            intro += "; "
    intro += "epochs are per chain, the total is of all chains and what they start from, as are "
    intro += "the seconds."
    if paper:
        intro += (
            " ✓ and ✗: ours is within or outside the tolerance (accuracy: the larger of 1 point "
            "and 3 joint standard errors; NLL and Brier score: 15 %; entropies: 50 %)."
        )
    return intro


def _differences(lines: list[ResultLine], columns: list[Column]) -> Html | None:
    entries = []
    for line in lines:
        outside = [
            f"{heading} {with_error(line.pooled.values[metric], None, metric, digits)} against "
            f"{with_error(line.paper.values[metric], None, metric, digits)}"
            for metric, heading, digits in columns
            if line.paper and line.agrees(metric) is False
        ]
        if outside:
            why = " ".join((line.why or "no reason is known").split())
            text = f": {', '.join(outside)}. Why: {why}"
            entries.append(el("li", el("b", line.label), text))
    if not entries:
        return None
    title = f"Outside the tolerance, and why ({count(len(entries), 'line')})"
    return el("details", el("summary", title), el("ul", *entries))
