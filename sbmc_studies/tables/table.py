"""The page's tables: required figures first, then every set with its methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sbmc_studies.tables.comparison import Figure, SetResults, read_results
from sbmc_studies.tables.methods import ENSEMBLE, METHODS
from sbmc_studies.tables.requirements import REQUIREMENTS
from sbmc_studies.tables.scoring import CLASSIFICATION_COLUMNS, REGRESSION_COLUMNS
from sbmc_studies.tables.sets import (
    CLASSIFICATION,
    Group,
    Published,
    TableSet,
    published_rows,
    table_groups,
)

NOTHING = "–"


def table_lines(out: Path) -> list[str]:
    """All tables in Markdown, as lines, from the records and from nothing else."""
    results = read_results(out)
    lines = ["## Required figures", "", *_requirements(results), ""]
    for group in table_groups():
        lines += [f"## {group.title}", "", *_group(group, results)]
    return lines


def _requirements(results: Mapping[str, SetResults]) -> list[str]:
    lines = _head(["required of sbmc", "measured", ""])
    for each in REQUIREMENTS:
        lines.append(_row([each.text, *each.measure(results)]))
    return lines


def _group(group: Group, results: Mapping[str, SetResults]) -> list[str]:
    lines = []
    for table_set in group.sets:
        lines += [f"### {table_set.name}", "", *_set(results[table_set.name]), ""]
    sources = {row.source: None for each in group.sets for row in published_rows(each)}
    if sources:
        lines += [f"Published rows: {'; '.join(sources)}.", ""]
    return lines


def _set(results: SetResults) -> list[str]:
    table_set = results.table_set
    published = published_rows(table_set)
    if not results.records and not published:
        return ["No record yet: `sbmc run tables` makes them."]
    names = _columns(table_set)
    first, *others = names
    lines = _head(["method", "splits", names[first], "− ensemble", *map(names.get, others), "s"])
    for method in METHODS:
        count = len(results.records.get(method, {}))
        if not count:
            continue
        cells = [
            method,
            f"{count} of {table_set.splits}",
            _with_error(results.figure(method, first)),
            NOTHING
            if method == ENSEMBLE
            else _with_error(results.difference(method, ENSEMBLE, first), signed=True),
            *(_number(results.figure(method, column)) for column in (*others, "seconds")),
        ]
        lines.append(_row(cells))
    lines += [_published(row, first, others) for row in published]
    return [*lines, *_missing(results)]


def _published(row: Published, first: str, others: Sequence[str]) -> str:
    """A row in italics; it has no splits of its own, and is paired with nothing."""
    values = [row.values.get(column) for column in (first, *others, "seconds")]
    cells = [NOTHING if value is None else f"*{value:g}*" for value in values]
    return _row([f"*{row.method}, published*", NOTHING, cells[0], NOTHING, *cells[1:]])


def _missing(results: SetResults) -> list[str]:
    """Why methods have no value, once for each reason."""
    found = []
    for method, reasons in results.missing.items():
        for reason, splits in reasons.items():
            words = reason.replace("|", "/").replace("\n", " ")
            found.append(f"- {method}, {len(splits)} of {results.table_set.splits}: {words}")
    return ["", "Missing:", "", *found] if found else []


def _columns(table_set: TableSet) -> Mapping[str, str]:
    return CLASSIFICATION_COLUMNS if table_set.kind == CLASSIFICATION else REGRESSION_COLUMNS


def _with_error(figure: Figure | None, *, signed: bool = False) -> str:
    if figure is None:
        return NOTHING
    mean = f"{figure.mean:+.3f}" if signed else f"{figure.mean:.3f}"
    return mean if figure.error is None else f"{mean} ± {figure.error:.3f}"


def _number(figure: Figure | None) -> str:
    if figure is None:
        return NOTHING
    return f"{figure.mean:.0f}" if abs(figure.mean) >= 100 else f"{figure.mean:.3f}"


def _head(cells: Sequence[str | None]) -> list[str]:
    return [_row([str(cell) for cell in cells]), _row(["---"] * len(cells))]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
