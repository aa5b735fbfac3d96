"""The paper's tables of entropies by group: total, aleatoric and epistemic."""

from __future__ import annotations

from collections.abc import Sequence

from sbmc.metrics import mean_and_error
from sbmc.report.collect import Found
from sbmc.report.given import Given
from sbmc.report.paper_tables.made import Made, our_cell, paper_label
from sbmc.report.tables import Cell
from sbmc.report.view import read_arrays
from sbmc.studies.experiments import Experiment, Row
from sbmc.studies.paper import groups, read_table
from sbmc.studies.pooling import pool
from sbmc.studies.tables.appendix import NOT_RERUN, Spec
from sbmc.studies.tables.groups import DIGITS, KINDS, group_row, our_name
from sbmc.studies.tables.lines import MISSING, Column, seeded_label

_Known = tuple[str, bool, dict[str, tuple[float, float]]]


def group_table(experiment: Experiment, spec: Spec, given: Given) -> Made | None:
    """Fill one of the paper's tables of groups, as `sbmc.studies.tables.groups` does.

    Args:
        experiment: whose.
        spec: which one.
        given: the runs.

    Returns:
        A line for each method and group; None if no run fills one.
    """
    known: dict[str, _Known] = {}
    lines: list[tuple[Sequence[object], ...]] = []
    for printed in read_table(spec.paper):
        method = printed["method"]
        if method not in known:
            known[method] = _measured(experiment, group_row(experiment, spec, printed), given)
        label, several, values = known[method]
        cells: list[object] = []
        for kind, (words, column) in KINDS.items():
            mean, error = values.get(
                f"{kind}.{our_name(experiment, printed['group'])}", (None, None)
            )
            shape = Column(kind, words, DIGITS)
            cells.append(our_cell(mean, error if several else None, shape))
            theirs = float(printed[column]) if printed[column] else None
            cells.append(our_cell(theirs, None, shape))
        islands = printed["islands"]
        place = Cell(islands or MISSING, float(islands) if islands else None)
        lines.append(([label, place, printed["group"], *cells],))
    if not any(values for _, _, values in known.values()):
        return None
    pairs = [each for words, _ in KINDS.values() for each in (words, f"{words}, the paper’s")]
    headings = ("Setting", "P", "group", *pairs)
    return Made(spec.title, paper_label(spec.paper), headings, tuple(lines))


def _measured(experiment: Experiment, row: Row | None, given: Given) -> _Known:
    """A label, whether errors mean something, and mean and error of `<kind>.<group or class>`."""
    if row is None:
        return NOT_RERUN, False, {}
    runs = given.runs(row)
    if not runs:
        return row.label, False, {}
    pooled = pool([run.record for run in runs])
    values = {}
    for kind in KINDS:
        for group in ("id", *groups(experiment.name)):
            metric = f"entropy.{kind}.{group if group == 'id' else f'ood.{group}'}"
            if metric in pooled.values:
                values[f"{kind}.{group}"] = pooled.values[metric], pooled.errors[metric]
    classes = [_classes(run) for run in runs]
    for name in sorted(set.intersection(*(set(each) for each in classes))):
        values[name] = mean_and_error([each[name] for each in classes])
    return seeded_label(row.label, pooled), len(runs) > 1, values


def _classes(run: Found) -> dict[str, float]:
    arrays = read_arrays(run, ("entropy.classes", *(f"entropy.classes.{k}" for k in KINDS)))
    if arrays is None:
        return {}
    return {
        f"{kind}.class {label}": float(value)
        for kind in KINDS
        for label, value in zip(
            arrays["entropy.classes"], arrays[f"entropy.classes.{kind}"], strict=False
        )
    }
