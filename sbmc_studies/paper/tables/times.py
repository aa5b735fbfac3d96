"""What a second buys: MAP, ensembles and samplers at their wall times, from records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sbmc.report.numbers import MISSING
from sbmc_studies.experiments.experiment import Experiment
from sbmc_studies.paper.tables.lines import (
    Column,
    Line,
    count,
    our_cells,
    plain,
    seeded_label,
)
from sbmc_studies.paper.tables.specs import Block
from sbmc_studies.records.finding import Runs, runs_of
from sbmc_studies.records.pooling import Pooled, row_islands

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


@dataclass(frozen=True)
class Bought:
    """What a row gained over the MAP, and for how much.

    Attributes:
        ratio: its seconds over the MAP's; None without a MAP, as the next two.
        gain: thousandths of NLL below the MAP's; None for the MAP itself.
        rate: that, over the seconds beyond the MAP's; None if there are none.
        matched: the ensemble nearest in time, as text.
    """

    ratio: float | None
    gain: float | None
    rate: float | None
    matched: str


SPENT = ("seconds", "× MAP", "gained", "per second", "matched")
"""Headings of what follows the metrics."""


def timed_rows(experiment: Experiment, runs: Runs) -> list[Timed]:
    """Find the rows of a study whose wall time was measured, quickest first.

    Args:
        experiment: whose rows.
        runs: where to find them.

    Returns:
        One for each setting and way of weighting; rows of several islands in the way they name.
    """
    rows = []
    for row in experiment.rows:
        pooled = runs.pooled(row)
        seconds = pooled.cost["wall_seconds"] if pooled else None
        if pooled is None or not seconds:
            continue
        variance = float(row.overrides.get("prior_variance", experiment.settings["prior_variance"]))
        label, islands = seeded_label(row.label, pooled), row_islands(experiment, row)
        weighted = pooled.weighted(row.weighting or "")
        rows.append(Timed(label, islands, variance, row.method, seconds, weighted))
    return sorted(rows, key=lambda row: (row.variance, row.seconds))


def compare(row: Timed, rows: Sequence[Timed]) -> Bought:
    """Set a row beside the MAP and the ensembles of the same prior variance.

    Args:
        row: one of `rows`.
        rows: all that were timed.
    """
    same_variance = [each for each in rows if each.variance == row.variance]
    anchor = next((each for each in same_variance if each.method == "map"), None)
    ratio = gain = rate = None
    if anchor is not None:
        ratio = row.seconds / anchor.seconds
        ours, theirs = (each.pooled.values.get("nll") for each in (row, anchor))
        if row is not anchor and ours is not None and theirs is not None:
            gain = 1000 * (theirs - ours)
            beyond = row.seconds - anchor.seconds
            rate = gain / beyond if beyond > 0 else None
    return Bought(ratio, gain, rate, _matched(row, same_variance))


def build_times(experiment: Experiment, source: Path | Runs) -> Block:
    """Make the table of what a second buys.

    Args:
        experiment: whose.
        source: the folder of all records, or runs that were found otherwise.

    Returns:
        A line for each row of the study's table with a wall time, by prior variance and then by
        time; columns that no row has are left out.
    """
    rows = timed_rows(experiment, runs_of(source, experiment.name))
    columns = [c for c in COLUMNS if any(c.metric in row.pooled.values for row in rows)]
    lines = []
    for index, row in enumerate(rows):
        section = index > 0 and rows[index - 1].variance != row.variance
        lines.append(_line(row, compare(row, rows), columns, section))
    headings = ("", "P", *(column.heading for column in columns), *SPENT)
    title = "what each buys with its wall time"
    # One time alone buys nothing that could be compared.
    return Block(experiment.name, title, headings, tuple(lines), filled=len(rows) > 1)


def _line(row: Timed, bought: Bought, columns: Sequence[Column], section: bool) -> Line:
    spent = (
        count(row.seconds),
        plain(bought.ratio, ".2f"),
        plain(bought.gain, "+.1f"),
        plain(bought.rate, "+.3f"),
        bought.matched,
    )
    cells = our_cells(row.pooled, columns)
    return Line((row.label, plain(row.islands), *cells, *spent), section)


def _matched(row: Timed, same_variance: Sequence[Timed]) -> str:
    ensembles = [each for each in same_variance if each.method == "de"]
    if row.method in ("map", "de") or not ensembles:
        return MISSING
    nearest = min(ensembles, key=lambda each: abs(each.seconds - row.seconds))
    return f"DE, P = {nearest.islands}: {row.seconds / nearest.seconds:.2f}"
