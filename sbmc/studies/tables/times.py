"""What a second buys: MAP, ensembles and samplers at their wall times, from records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sbmc.studies.experiments import Experiment, Row
from sbmc.studies.pooling import Pooled, find_records, pool, row_islands
from sbmc.studies.tables.appendix import Block
from sbmc.studies.tables.lines import MISSING, Column, Line, our_cells, seeded_label, whole

COLUMNS = (
    Column("accuracy", "accuracy %", 2),
    Column("nll", "NLL", 4),
    Column("entropy.epistemic.incorrect", "H_ep incorrect", 4),
    Column("entropy.epistemic.ood.all", "H_ep OOD", 4),
)

FOOTNOTE = (
    "Wall time of a whole run, the training of the anchor or of the ensemble included, as measured "
    "for P islands made at once; runs without a measured time are left out. × MAP: over the MAP's "
    "time. gained: NLL below the MAP's, in thousandths. per second: that, over the seconds beyond "
    "the MAP's. matched: the ensemble nearest in time, and how long this took of its time."
)


@dataclass(frozen=True)
class Timed:
    """A row of a study's table whose wall time is known.

    Attributes:
        label: its name.
        islands: its P.
        variance: of the prior: rows are compared with those of the same.
        method: the method's name.
        seconds: mean wall time.
        pooled: its records.
    """

    label: str
    islands: int
    variance: float
    method: str
    seconds: float
    pooled: Pooled


def timed_rows(experiment: Experiment, records: Path) -> list[Timed]:
    """Find the rows of a study whose wall time was measured, quickest first.

    Args:
        experiment: whose rows.
        records: the folder of all records.

    Returns:
        One for each setting and way of weighting; rows of several islands in the way they name.
    """
    rows = []
    for row in experiment.rows:
        found = find_records(records, experiment, row)
        pooled = pool(found) if found else None
        seconds = pooled.cost["wall_seconds"] if pooled else None
        if pooled is None or not seconds:
            continue
        shown = pooled.weighted(row.weighting or "")
        islands = row_islands(experiment, row)
        label = seeded_label(row.label, pooled)
        variance = _variance(experiment, row)
        rows.append(Timed(label, islands, variance, row.method, seconds, shown))
    return sorted(rows, key=lambda row: (row.variance, row.seconds))


def build_times(experiment: Experiment, records: Path) -> Block:
    """Make the table of what a second buys.

    Args:
        experiment: whose.
        records: the folder of all records.

    Returns:
        A line for each row of the study's table with a wall time, by prior variance and then by
        time.
    """
    rows = timed_rows(experiment, records)
    lines = []
    for index, row in enumerate(rows):
        own = [each for each in rows if each.variance == row.variance]
        section = index > 0 and rows[index - 1].variance != row.variance
        lines.append(_line(row, own, section))
    more = ("seconds", "× MAP", "gained", "per second", "matched")
    headings = ("", "P", *(column.heading for column in COLUMNS), *more)
    return Block(f"{experiment.name}: what each buys with its wall time", headings, tuple(lines))


def _line(row: Timed, own: Sequence[Timed], section: bool) -> Line:
    anchor = next((each for each in own if each.method == "map"), None)
    ratio = gained = rate = MISSING
    if anchor is not None:
        ratio = f"{row.seconds / anchor.seconds:.2f}"
        if row is not anchor:
            gain = 1000 * (anchor.pooled.values["nll"] - row.pooled.values["nll"])
            beyond = row.seconds - anchor.seconds
            gained = f"{gain:+.1f}"
            rate = f"{gain / beyond:+.3f}" if beyond > 0 else MISSING
    spent = (whole(row.seconds), ratio, gained, rate, _matched(row, own))
    return Line((row.label, str(row.islands), *our_cells(row.pooled, COLUMNS), *spent), section)


def _matched(row: Timed, own: Sequence[Timed]) -> str:
    ensembles = [each for each in own if each.method == "de"]
    if row.method in ("map", "de") or not ensembles:
        return MISSING
    nearest = min(ensembles, key=lambda each: abs(each.seconds - row.seconds))
    return f"DE, P = {nearest.islands}: {row.seconds / nearest.seconds:.2f}"


def _variance(experiment: Experiment, row: Row) -> float:
    return float(row.overrides.get("prior_variance", experiment.settings["prior_variance"]))
