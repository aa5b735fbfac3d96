"""What a second buys: the table at matched wall times."""

from __future__ import annotations

from collections.abc import Sequence

from sbmc.report.given import Given
from sbmc.report.paper_tables.confidence import OURS
from sbmc.report.paper_tables.made import Made, our_cell
from sbmc.report.tables import Cell
from sbmc.studies.experiments import Experiment
from sbmc.studies.pooling import row_islands
from sbmc.studies.tables.lines import MISSING, Column, seeded_label, whole
from sbmc.studies.tables.times import COLUMNS, Timed


def time_table(experiment: Experiment, given: Given) -> Made | None:
    """Fill the table of wall times, as `sbmc.studies.tables.times` does.

    Args:
        experiment: whose.
        given: the runs.

    Returns:
        A line for each row of the study's table with a wall time, by prior variance and then by
        time; None if there are not two to compare.
    """
    rows = _timed(experiment, given)
    if len(rows) < 2:
        return None
    columns = [c for c in COLUMNS if any(c.metric in row.pooled.values for row in rows)]
    lines = [
        (_line(row, [each for each in rows if each.variance == row.variance], columns),)
        for row in rows
    ]
    more = ("seconds", "× MAP", "gained", "per second", "matched")
    headings = ("Setting", "P", *(column.heading for column in columns), *more)
    return Made("what each buys with its wall time", OURS, headings, tuple(lines))


def _timed(experiment: Experiment, given: Given) -> list[Timed]:
    rows = []
    for row in experiment.rows:
        pooled = given.pooled(row)
        seconds = pooled.cost["wall_seconds"] if pooled else None
        if pooled is None or not seconds:
            continue
        variance = float(row.overrides.get("prior_variance", experiment.settings["prior_variance"]))
        label, islands = seeded_label(row.label, pooled), row_islands(experiment, row)
        shown = pooled.weighted(row.weighting or "")
        rows.append(Timed(label, islands, variance, row.method, seconds, shown))
    return sorted(rows, key=lambda row: (row.variance, row.seconds))


def _line(row: Timed, own: Sequence[Timed], columns: Sequence[Column]) -> list[object]:
    several = len(row.pooled.records) > 1
    values, errors = row.pooled.values, row.pooled.errors
    cells: list[object] = [
        our_cell(values.get(c.metric), errors.get(c.metric) if several else None, c)
        for c in columns
    ]
    anchor = next((each for each in own if each.method == "map"), None)
    ratio = gain = rate = None
    if anchor is not None:
        ratio = row.seconds / anchor.seconds
        ours, theirs = values.get("nll"), anchor.pooled.values.get("nll")
        if row is not anchor and ours is not None and theirs is not None:
            gain = 1000 * (theirs - ours)
            beyond = row.seconds - anchor.seconds
            rate = gain / beyond if beyond > 0 else None
    cells += [Cell(whole(row.seconds), row.seconds), _cell(ratio, ".2f")]
    cells += [_cell(gain, "+.1f"), _cell(rate, "+.3f"), _matched(row, own)]
    return [row.label, Cell(row.islands, row.islands), *cells]


def _cell(value: float | None, form: str) -> Cell:
    return Cell(MISSING) if value is None else Cell(f"{value:{form}}", value)


def _matched(row: Timed, own: Sequence[Timed]) -> object:
    ensembles = [each for each in own if each.method == "de"]
    if row.method in ("map", "de") or not ensembles:
        return MISSING
    nearest = min(ensembles, key=lambda each: abs(each.seconds - row.seconds))
    return f"DE, P = {nearest.islands}: {row.seconds / nearest.seconds:.2f}"
