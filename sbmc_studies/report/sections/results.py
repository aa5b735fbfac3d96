"""The table of results, the paper's numbers beside ours, and the reasons where they differ."""

from __future__ import annotations

from sbmc.report.markup import Html, cut, el, join
from sbmc.report.numbers import MISSING, count, short, with_error
from sbmc.report.tables import Cell, table
from sbmc_studies.paper.tables.columns import NOTES
from sbmc_studies.paper.tables.lines import Column
from sbmc_studies.report.agreement import Shown, columns, lines
from sbmc_studies.report.collect import Study
from sbmc_studies.report.view import Section, View


def build(view: View) -> Section | None:
    """The table; None if no run has a result."""
    shown = [line for line in lines(view.study) if line.pooled.values]
    wanted = columns(view.study)
    if not shown or not wanted:
        return None
    most = view.limits.rows
    groups = [_group(line, wanted) for line in shown[:most]]
    paper = any(line.paper for line in shown)
    headings = ["Setting", "P", "seeds", *(each.heading for each in wanted)]
    headings += ["epochs", "total", "seconds"]
    caption = f"Results of {view.study.name}" + (", with the paper’s in grey" if paper else "")
    body = [
        el("p", _words(view.study, wanted, paper)),
        table(cut(caption, 120), headings, groups, class_="results"),
        view.omitted(len(groups), len(shown), "line"),
        el("p", NOTES[view.study.name], class_="note") if view.study.name in NOTES else None,
        _differences(shown[:most], wanted),
    ]
    title = "Results beside the paper’s" if paper else "Results"
    return Section("results", title, join(body))


def _group(line: Shown, wanted: list[Column]) -> list[list[object]]:
    setting, pooled = line.setting, line.pooled
    several = len(setting.runs) > 1
    cells: list[object] = [line.label]
    cells.append(Cell(setting.islands if setting.islands else MISSING, setting.islands))
    cells.append(Cell(len(setting.runs), len(setting.runs)))
    for metric, _, digits in wanted:
        value, error = pooled.values.get(metric), pooled.errors.get(metric)
        text = with_error(value, error if several else None, metric, digits)
        cells.append(Cell(text, value))
    for name in ("epochs", "total_epochs", "wall_seconds"):
        spent = pooled.cost.get(name)
        cells.append(Cell(short(spent), spent))
    rows = [cells]
    if line.paper:
        theirs: list[object] = [
            "the paper’s",
            Cell(line.paper.islands or MISSING, line.paper.islands),
            "",
        ]
        for metric, _, digits in wanted:
            value, error = line.paper.values.get(metric), line.paper.errors.get(metric)
            good = line.agrees(metric)
            mark = "" if good is None else " ✓" if good else " ✗"
            note = None if good is None else "good" if good else "bad"
            told = with_error(value, error, metric, digits) + mark
            theirs.append(Cell(told, value, note))
        spent_there = (line.paper.epochs, line.paper.total_epochs)
        theirs += [*(Cell(short(each), each) for each in spent_there), Cell(MISSING)]
        rows.append(theirs)
    return rows


def _words(study: Study, wanted: list[Column], paper: bool) -> str:
    seeds = {len(setting.runs) for setting in study.settings}
    words = "One seed each. " if seeds == {1} else "Mean ± standard error over seeds. "
    metrics = {column.metric for column in wanted}
    kinds = [
        f"{sign} is {kind} entropy in nats"
        for sign, kind in (("H_ep", "epistemic"), ("H_tot", "total"))
        if any(name.startswith(f"entropy.{kind}.") for name in metrics)
    ]
    if kinds:
        words += f"{' and '.join(kinds)}, of test inputs that are classified correctly and "
        words += "incorrectly"
        if any(".ood." in name for name in metrics):
            words += ", and of inputs out of domain"
            words += " (OOD); " if any(name.endswith("ood.all") for name in metrics) else "; "
        else:
            words += "; "
    words += "epochs are per chain, the total is of all chains and what they start from, as are "
    words += "the seconds."
    if paper:
        words += (
            " ✓ and ✗: ours is within or outside the tolerance (accuracy: the larger of 1 point "
            "and 3 joint standard errors; NLL and Brier score: 15 %; entropies: 50 %)."
        )
    return words


def _differences(shown: list[Shown], wanted: list[Column]) -> Html | None:
    entries = []
    for line in shown:
        outside = [
            f"{heading} {with_error(line.pooled.values[metric], None, metric, digits)} against "
            f"{with_error(line.paper.values[metric], None, metric, digits)}"
            for metric, heading, digits in wanted
            if line.paper and line.agrees(metric) is False
        ]
        if outside:
            why = " ".join((line.why or "no reason is known").split())
            words = f": {', '.join(outside)}. Why: {why}"
            entries.append(el("li", el("b", line.label), words))
    if not entries:
        return None
    title = f"Outside the tolerance, and why ({count(len(entries), 'line')})"
    return el("details", el("summary", title), el("ul", *entries))
