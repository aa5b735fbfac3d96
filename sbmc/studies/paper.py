"""The paper's numbers, read from the CSV files in `paper_tables/`."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

from sbmc.checks import BadInput

# The columns of a table here, by metric of a record: where the paper's value stands, and what to
# divide it by. Accuracy is in percent in the paper and a fraction in a record.
COLUMNS = {
    "accuracy": ("accuracy", 100.0),
    "nll": ("nll", 1.0),
    "entropy.epistemic.correct": ("h_ep_correct", 1.0),
    "entropy.epistemic.incorrect": ("h_ep_incorrect", 1.0),
    "entropy.epistemic.ood.all": ("h_ep_ood", 1.0),
}
_GROUPS = ("h_ep_8", "h_ep_9", "h_ep_wn", "h_ep_per")


@dataclass(frozen=True)
class PaperRow:
    """One row of the paper's results, in the units of a record.

    Attributes:
        method: the method's name; `hmc-gs` is the paper's long chain.
        islands: the paper's P, or None where it gives none.
        epochs: per chain, without the anchor's.
        total_epochs: of all chains and the anchor, or None where it gives none.
        values: metric name to value; what the paper does not give is absent.
        errors: metric name to standard error, where the paper gives one.
    """

    method: str
    islands: int | None
    epochs: float
    total_epochs: float | None
    values: dict[str, float]
    errors: dict[str, float]


def read_table(name: str) -> list[dict[str, str]]:
    """Read one of the paper's tables as it stands.

    Args:
        name: the file's name without `.csv`.

    Returns:
        The rows, column name to printed text; an empty cell is an empty string.

    Raises:
        BadInput: if there is no such table.

    Example:
        >>> read_table("mnist7_main")[0]["accuracy"]
        '92.3'
    """
    file = resources.files(__package__).joinpath(f"paper_tables/{name}.csv")
    if not file.is_file():
        raise BadInput(f"`name` must be a table of the paper, but got {name!r}.")
    return list(csv.DictReader(file.read_text("utf-8").splitlines()))


@cache
def main_rows(experiment: str) -> tuple[PaperRow, ...]:
    """Read the paper's main table of an experiment, the long chains left out.

    Args:
        experiment: the experiment's name.

    Returns:
        The rows; none for an experiment that is not in the paper.

    Example:
        >>> [round(r.values["nll"], 3) for r in main_rows("mnist7") if r.method == "s-hmc"]
        [0.232, 0.231]
    """
    if not _has(f"{experiment}_main"):
        return ()
    rows = read_table(f"{experiment}_main")
    return tuple(_read_row(row) for row in rows if row["method"] != "hmc-gs")


@cache
def gold_standards(experiment: str) -> tuple[PaperRow, ...]:
    """Read the paper's long chains on the full posterior, shortest first.

    They are taken from the s-ablation, which has all three lengths: two of the values that the main
    table prints for these chains contradict it (see `paper_tables/README.md`).

    Args:
        experiment: the experiment's name.

    Returns:
        The rows; none for an experiment without such chains.

    Example:
        >>> [int(row.epochs) for row in gold_standards("mnist7")]
        [20000, 200000, 1800000]
    """
    if not _has(f"{experiment}_s_ablation"):
        return ()
    rows = [row for row in read_table(f"{experiment}_s_ablation") if row["method"] == "hmc-gs"]
    return tuple(sorted(map(_read_row, rows), key=lambda row: row.epochs))


def find_row(
    experiment: str,
    method: str,
    islands: int | None = None,
    table: str | None = None,
    epochs: float | None = None,
) -> PaperRow | None:
    """Find the row of one of the paper's tables for a method.

    Args:
        experiment: the experiment's name.
        method: the method's name.
        islands: the paper's P, if that tells rows apart.
        table: name of the table; the experiment's main one if not given.
        epochs: epochs per chain, if that tells rows apart.

    Returns:
        The row, or None if the paper has no such row, or more than one.

    Example:
        >>> find_row("mnist7", "s-smc", 4, "mnist7_p_ablation_s025").epochs
        164.5
    """
    rows = main_rows(experiment) if table is None else map(_read_row, read_table(table))
    found = [
        row
        for row in rows
        if row.method == method
        and (islands is None or row.islands == islands)
        and (epochs is None or row.epochs == epochs)
    ]
    return found[0] if len(found) == 1 else None


def _read_row(row: dict[str, str]) -> PaperRow:
    values, errors = {}, {}
    if not row.get("h_ep_ood") and all(row.get(group) for group in _GROUPS):
        # The four groups have the same number of examples, so "all" is the mean of their means.
        row = {**row, "h_ep_ood": repr(sum(float(row[g]) for g in _GROUPS) / len(_GROUPS))}
    for metric, (column, unit) in COLUMNS.items():
        if row.get(column):
            values[metric] = float(row[column]) / unit
        if row.get(f"{column}_se"):
            errors[metric] = float(row[f"{column}_se"]) / unit
    return PaperRow(
        method=row["method"],
        islands=int(row["islands"]) if row["islands"] else None,
        epochs=float(row["epochs"]),
        total_epochs=float(row["total_epochs"]) if row.get("total_epochs") else None,
        values=values,
        errors=errors,
    )


def _has(name: str) -> bool:
    return resources.files(__package__).joinpath(f"paper_tables/{name}.csv").is_file()
