"""The paper's tables of entropies by group: total, aleatoric and epistemic, ours beside its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sbmc.studies.confidence import arrays_file
from sbmc.studies.experiments import Experiment, Row
from sbmc.studies.paper import groups, read_table
from sbmc.studies.pooling import find_records, pool
from sbmc.studies.records import Record, record_path
from sbmc.studies.tables.appendix import LONG_CHAIN, Block, Spec, chain_row, paper_setting
from sbmc.studies.tables.lines import MISSING, Line, seeded_label

KINDS = {"total": ("H_tot", "h_tot"), "aleatoric": ("H_al", "h_al"), "epistemic": ("H_ep", "h_ep")}
DIGITS = 5  # IMDb's epistemic entropies at v = 1/40 begin at the fourth
# In-domain classes that have a name in the paper's tables.
CLASSES = {"imdb": {"negative": 0, "positive": 1}}

FOOTNOTE = (
    "Entropies of one class are of the meta-classifier's test set, which is smaller than the "
    "study's; others are of all test inputs and of all inputs of a group."
)


def build_groups(experiment: Experiment, spec: Spec, records: Path) -> Block:
    """Make one of the paper's tables of groups.

    Args:
        experiment: whose.
        spec: which one.
        records: the folder of all records.

    Returns:
        A line for each method and group: each entropy with its standard error, and the paper's.
    """
    lines: list[Line] = []
    known: dict[str, tuple[str, dict[str, str]]] = {}
    for printed in read_table(spec.paper):
        method = printed["method"]
        section = bool(lines) and method not in known
        if method not in known:
            known[method] = _measured(experiment, group_row(experiment, spec, printed), records)
        label, values = known[method]
        cells = []
        for kind, (_, column) in KINDS.items():
            ours = values.get(f"{kind}.{our_name(experiment, printed['group'])}")
            cells += [MISSING if ours is None else ours, _printed(printed[column])]
        lines.append(
            Line((label, printed["islands"] or MISSING, printed["group"], *cells), section)
        )
    pairs = [heading for words, _ in KINDS.values() for heading in (words, "paper")]
    headings = ("", "P", "group", *pairs)
    return Block(f"{spec.paper}: {spec.title}", headings, tuple(lines))


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


def _measured(experiment: Experiment, row: Row | None, records: Path) -> tuple[str, dict[str, str]]:
    """A label, and mean and error of each entropy as a cell: `<kind>.<group or class>`."""
    if row is None:
        return "paper: HMC, long chain, not rerun", {}
    found = find_records(records, experiment, row)
    if not found:
        return row.label, {}
    from sbmc.metrics import mean_and_error

    pooled = pool(found)
    values = {
        f"{kind}.{group}": (pooled.values[metric], pooled.errors[metric])
        for kind in KINDS
        for group in ("id", *groups(experiment.name))
        if (metric := _metric(kind, group)) in pooled.values
    }
    classes = [_classes(records, record) for record in found]
    for name in set.intersection(*(set(each) for each in classes)):
        values[name] = mean_and_error([each[name] for each in classes])
    several = len(found) > 1  # one seed tells nothing of its own error
    cells = {
        name: f"{mean:.{DIGITS}f}±{error:.{DIGITS}f}" if several else f"{mean:.{DIGITS}f}"
        for name, (mean, error) in values.items()
    }
    return seeded_label(row.label, pooled), cells


def _printed(text: str) -> str:
    return f"{float(text):.{DIGITS}f}" if text else MISSING


def _classes(records: Path, record: Record) -> dict[str, float]:
    folder = record_path(records, record.experiment, record.method, record.hash, record.seed).parent
    file = arrays_file(folder, "paper")
    if not file.is_file():
        return {}
    with np.load(file, allow_pickle=False) as arrays:
        names = [f"class {label}" for label in arrays["entropy.classes"]]
        return {
            f"{kind}.{name}": float(value)
            for kind in KINDS
            for name, value in zip(names, arrays[f"entropy.classes.{kind}"], strict=True)
        }


def _metric(kind: str, group: str) -> str:
    return f"entropy.{kind}.{group}" if group == "id" else f"entropy.{kind}.ood.{group}"


def our_name(experiment: Experiment, group: str) -> str:
    """What our records call a group, or a class, of the paper's table."""
    ours = {theirs: name for name, theirs in groups(experiment.name).items()}
    if group == "id" or group in ours:
        return ours.get(group, group)
    return f"class {CLASSES.get(experiment.name, {}).get(group, group)}"
