"""The paper's tables of entropies by group: total, aleatoric and epistemic, ours beside its own."""

from __future__ import annotations

from pathlib import Path

from sbmc.prediction.metrics import mean_and_error
from sbmc.report.numbers import MISSING
from sbmc_studies.experiments.experiment import Experiment, Row
from sbmc_studies.paper.numbers import groups, read_table
from sbmc_studies.paper.tables.lines import (
    Column,
    Entry,
    Line,
    number,
    plain,
    seeded_label,
)
from sbmc_studies.paper.tables.specs import (
    LONG_CHAIN,
    NOT_RERUN,
    Block,
    Spec,
    chain_row,
    paper_setting,
)
from sbmc_studies.records.finding import Runs, runs_of
from sbmc_studies.records.pooling import pool
from sbmc_studies.runs.confidence import read_arrays

KINDS = {"total": ("H_tot", "h_tot"), "aleatoric": ("H_al", "h_al"), "epistemic": ("H_ep", "h_ep")}
# IMDb's epistemic entropies at v = 1/40 begin at the fourth digit.
_COLUMN = Column("", "", digits=5)
# In-domain classes that have a name in the paper's tables.
CLASSES = {"imdb": {"negative": 0, "positive": 1}}

FOOTNOTE = (
    "Entropies of one class are of the meta-classifier's test set, which is smaller than the "
    "study's; others are of all test inputs and of all inputs of a group."
)


def build_groups(experiment: Experiment, spec: Spec, source: Path | Runs) -> Block:
    """Make one of the paper's tables of groups.

    Args:
        experiment: whose.
        spec: which one.
        source: the folder of all records, or runs that were found otherwise.

    Returns:
        A line for each method and group: each entropy with its standard error, and the paper's.
    """
    runs = runs_of(source, experiment.name)
    lines: list[Line] = []
    known: dict[str, tuple[str, dict[str, Entry]]] = {}
    for printed in read_table(spec.paper):
        method = printed["method"]
        section = bool(lines) and method not in known
        if method not in known:
            known[method] = _measured(experiment, group_row(experiment, spec, printed), runs)
        label, values = known[method]
        cells = []
        for kind, (_, column) in KINDS.items():
            ours = values.get(f"{kind}.{our_name(experiment, printed['group'])}")
            cells += [MISSING if ours is None else ours, _printed(printed[column])]
        islands = plain(float(printed["islands"]) if printed["islands"] else None)
        lines.append(Line((label, islands, printed["group"], *cells), section))
    pairs = [each for heading, _ in KINDS.values() for each in (heading, "paper")]
    headings = ("", "P", "group", *pairs)
    filled = any(values for _, values in known.values())
    return Block(spec.paper, spec.title, headings, tuple(lines), (spec.paper,), filled)


def group_row(experiment: Experiment, spec: Spec, printed: dict[str, str]) -> Row | None:
    """Our setting for a row of the paper's table; None where we have none."""
    method = printed["method"]
    if method == LONG_CHAIN:
        return chain_row(experiment, spec)
    islands = int(printed["islands"]) if printed["islands"] else None
    row = paper_setting(experiment, spec, method, float(printed["s"]), float(printed["v"]), islands)
    if method.endswith("smc") and (islands or 1) > 1:
        # Single classes are known only of runs that were combined so; all else is the same.
        overrides = {**row.overrides, "island_weights": "equal"}
        return Row(f"{row.label}, equal weights", method, row.preset, overrides)
    return row


def _measured(experiment: Experiment, row: Row | None, runs: Runs) -> tuple[str, dict[str, Entry]]:
    """A label, and mean and error of each entropy as a cell: `<kind>.<group or class>`."""
    if row is None:
        return NOT_RERUN, {}
    records = runs.records_of(row)
    if not records:
        return row.label, {}
    pooled = pool(records)
    values = {
        f"{kind}.{group}": (pooled.values[metric], pooled.errors[metric])
        for kind in KINDS
        for group in ("id", *groups(experiment.name))
        if (metric := _metric(kind, group)) in pooled.values
    }
    classes = [_classes(runs.folder_of(record)) for record in records]
    for name in set.intersection(*(set(each) for each in classes)):
        values[name] = mean_and_error([each[name] for each in classes])
    several = len(records) > 1  # a single seed has no error
    cells = {
        name: number(mean, error if several else None, _COLUMN)
        for name, (mean, error) in values.items()
    }
    return seeded_label(row.label, pooled), cells


def _printed(text: str) -> Entry:
    return number(float(text) if text else None, None, _COLUMN)


def _classes(folder: Path) -> dict[str, float]:
    arrays = read_arrays(folder, "paper")
    needed = {"entropy.classes", *(f"entropy.classes.{kind}" for kind in KINDS)}
    if arrays is None or not needed <= set(arrays):
        return {}
    return {
        f"{kind}.class {label}": float(value)
        for kind in KINDS
        # Of a damaged file: what there is of both.
        for label, value in zip(
            arrays["entropy.classes"], arrays[f"entropy.classes.{kind}"], strict=False
        )
    }


def _metric(kind: str, group: str) -> str:
    return f"entropy.{kind}.{group}" if group == "id" else f"entropy.{kind}.ood.{group}"


def our_name(experiment: Experiment, group: str) -> str:
    """What our records call a group, or a class, of the paper's table."""
    ours = {theirs: name for name, theirs in groups(experiment.name).items()}
    if group == "id" or group in ours:
        return ours.get(group, group)
    return f"class {CLASSES.get(experiment.name, {}).get(group, group)}"
