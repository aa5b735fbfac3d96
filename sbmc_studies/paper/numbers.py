"""The paper's numbers, read from the CSV files in `expected/`."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

from sbmc.checks import BadInput

# The out-of-domain groups of a study, by our name and in the order of tables: the paper's suffix.
_GROUPS = {
    "mnist7": {"8": "8", "9": "9", "white_noise": "wn", "perturbed": "per"},
    "imdb": {name: name for name in ("reviews", "meta", "lipsum", "full_reviews", "full_meta")},
    "cifar10": {name: name for name in ("close", "corrupt", "far")},
    # No out-of-domain texts; in the paper's tables it goes by the name of its model.
    "shakespeare": {},
    "gpt2": {},
}
_KINDS = {"epistemic": "h_ep", "total": "h_tot"}


@dataclass(frozen=True)
class PaperRow:
    """One row of the paper's results, in the units of a record.

    Attributes:
        method: the method's name; `hmc-gs` is the paper's long chain.
        islands: the paper's P, or None where it gives none.
        epochs: per chain, without the anchor's; NaN where it gives none.
        total_epochs: of all chains and the anchor, or None where it gives none.
        values: metric name to value; what the paper does not give is absent.
        errors: metric name to standard error, where the paper gives one.
        s: the anchoring parameter; 0 for MAP and ensembles, None where it gives none.
        variance: the prior variance, or None where it gives none.
    """

    method: str
    islands: int | None
    epochs: float
    total_epochs: float | None
    values: dict[str, float]
    errors: dict[str, float]
    s: float | None = None
    variance: float | None = None


def groups(experiment: str) -> dict[str, str]:
    """The out-of-domain groups of a study.

    Args:
        experiment: the experiment's name; any other than the paper's has those of MNIST7.

    Returns:
        Our name of each to the suffix of the paper's columns.

    Examples:
        >>> groups("mnist7")["white_noise"]
        'wn'
    """
    return _GROUPS.get(experiment, _GROUPS["mnist7"])


def read_table(name: str) -> list[dict[str, str]]:
    """Read one of the paper's tables as it is printed.

    Args:
        name: the file's name without `.csv`.

    Returns:
        The rows, column name to printed text; an empty cell is an empty string.

    Raises:
        BadInput: if there is no such table.

    Examples:
        >>> read_table("mnist7_main")[0]["accuracy"]
        '92.3'
    """
    file = resources.files(__package__).joinpath(f"expected/{name}.csv")
    if not file.is_file():
        raise BadInput(f"`name` must be a table of the paper, but got {name!r}.")
    return list(csv.DictReader(file.read_text("utf-8").splitlines()))


@cache
def table_names() -> tuple[str, ...]:
    """The names of all tables of the paper, in alphabetical order."""
    files = resources.files(__package__).joinpath("expected").iterdir()
    return tuple(sorted(f.name.removesuffix(".csv") for f in files if f.name.endswith(".csv")))


@cache
def main_rows(experiment: str) -> tuple[PaperRow, ...]:
    """Read the paper's main table of an experiment, the long chains left out.

    Args:
        experiment: the experiment's name.

    Returns:
        The rows; none for an experiment that is not in the paper.

    Examples:
        >>> [round(r.values["nll"], 3) for r in main_rows("mnist7") if r.method == "s-hmc"]
        [0.232, 0.231]
    """
    if f"{experiment}_main" not in table_names():
        return ()
    rows = read_table(f"{experiment}_main")
    return tuple(_read_row(row) for row in rows if row["method"] != "hmc-gs")


@cache
def gold_standards(experiment: str) -> tuple[PaperRow, ...]:
    """Read the paper's long chains on the full posterior, shortest first.

    They are taken from the s-ablation, which has all three lengths: two of the values that the main
    table prints for these chains contradict it (see `expected/README.md`).

    Args:
        experiment: the experiment's name.

    Returns:
        The rows; none for an experiment without such chains.

    Examples:
        >>> [int(row.epochs) for row in gold_standards("mnist7")]
        [20000, 200000, 1800000]
    """
    if f"{experiment}_s_ablation" not in table_names():
        return ()
    rows = [row for row in read_table(f"{experiment}_s_ablation") if row["method"] == "hmc-gs"]
    return tuple(sorted(map(_read_row, rows), key=lambda row: row.epochs))


def find_row(
    experiment: str,
    method: str,
    islands: int | None = None,
    table: str | None = None,
    epochs: float | None = None,
    s: float | None = None,
) -> PaperRow | None:
    """Find the row of one of the paper's tables for a method.

    Args:
        experiment: the experiment's name.
        method: the method's name.
        islands: the paper's P, if that tells rows apart.
        table: name of the table; the experiment's main one if not given.
        epochs: epochs per chain, if that tells rows apart.
        s: the anchoring parameter, if that tells rows apart.

    Returns:
        The row, or None if the paper has no such row, or more than one.

    Examples:
        >>> find_row("mnist7", "s-smc", 4, "mnist7_p_ablation_s025").epochs
        164.5
    """
    rows = main_rows(experiment) if table is None else paper_rows(table)
    matching = [
        row
        for row in rows
        if row.method == method
        and (islands is None or row.islands == islands)
        and (epochs is None or row.epochs == epochs)
        and (s is None or row.s == s)
    ]
    return matching[0] if len(matching) == 1 else None


@cache
def paper_rows(table: str) -> tuple[PaperRow, ...]:
    """Read one of the paper's tables of methods in the units of a record.

    Args:
        table: its name.

    Returns:
        Its rows, in order.

    Raises:
        BadInput: if there is no such table.
    """
    return tuple(map(_read_row, read_table(table)))


def metric_columns(experiment: str) -> dict[str, tuple[str, float]]:
    """The column that has the paper's value of a metric, and what to divide it by.

    Accuracy is in percent in the paper and a fraction in a record; the Brier score of IMDb is of
    one class there and the sum over both in a record.

    Args:
        experiment: the experiment's name.

    Returns:
        Metric name to column and divisor.
    """
    named = {f"ood.{ours}": theirs for ours, theirs in groups(experiment).items()}
    named |= {"correct": "correct", "incorrect": "incorrect", "ood.all": "ood"}
    return {
        "accuracy": ("accuracy", 100.0),
        "nll": ("nll", 1.0),
        "brier": ("brier", 0.5 if experiment == "imdb" else 1.0),
        "ece": ("ece", 1.0),
        **{
            f"entropy.{kind}.{ours}": (f"{prefix}_{theirs}", 1.0)
            for kind, prefix in _KINDS.items()
            for ours, theirs in named.items()
        },
    }


def _read_row(row: dict[str, str]) -> PaperRow:
    values, errors = {}, {}
    for kind in _KINDS.values():
        parts = [row.get(f"{kind}_{group}") for group in groups(row["experiment"]).values()]
        if parts and not row.get(f"{kind}_ood") and all(parts):
            # The paper's groups have the same number of examples: "all" is the mean of their means.
            row = {**row, f"{kind}_ood": repr(sum(float(p) for p in parts if p) / len(parts))}
    for metric, (column, unit) in metric_columns(row["experiment"]).items():
        if row.get(column):
            values[metric] = float(row[column]) / unit
        if row.get(f"{column}_se"):
            errors[metric] = float(row[f"{column}_se"]) / unit
    return PaperRow(
        method=row["method"],
        islands=_integer(row["islands"]),
        epochs=float(row.get("epochs") or "nan"),
        total_epochs=_real(row.get("total_epochs")),
        values=values,
        errors=errors,
        s=_real(row.get("s")),
        variance=_real(row.get("v")),
    )


def _integer(text: str) -> int | None:
    return int(text) if text else None


def _real(text: str | None) -> float | None:
    return float(text) if text else None
