"""Running the study: one record for each set, split and method.

What is recorded is not run again, so that a run that was stopped goes on with what is missing. A
method that could not be run, because a package is not installed, is tried again each time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from sbmc.checks import BadInput, nearest
from sbmc.storage.files import parse_json, write_json
from sbmc.storage.provenance import hardware_summary, software_versions
from sbmc_studies.tables.data import load_split
from sbmc_studies.tables.methods import METHODS, NotSupported, runs_on
from sbmc_studies.tables.recipe import Prepared, prepare
from sbmc_studies.tables.scoring import score_classification, score_regression
from sbmc_studies.tables.sets import TableSet

FOLDER = "tables"
# What `--quick` runs: small sets of all groups, their first split, and methods without extras.
QUICK_SETS = ("yacht", "yacht-gap", "glass")
QUICK_METHODS = ("sbmc", "network", "ensemble-5")


def record_file(out: Path, table_set: str, split: int, method: str) -> Path:
    """Where the record of a set, a split and a method is."""
    return out / FOLDER / table_set / f"split_{split:02d}" / f"{method}.json"


def read_table_record(path: Path) -> dict[str, Any] | None:
    """The record, or None if there is none.

    Raises:
        BadInput: the file is no record of this study.
    """
    if not path.is_file():
        return None
    try:
        content = parse_json(path.read_bytes())
    except ValueError as error:
        raise BadInput(f"`{path}` must be a JSON record, but {error}. Delete or mend it.") from None
    if not isinstance(content, dict) or not ("scores" in content or "missing" in content):
        raise BadInput(f"`{path}` must have `scores` or `missing`. Delete it to run it again.")
    return content


def check_methods(names: Iterable[str]) -> tuple[str, ...]:
    """Refuse names that are no methods of the study."""
    for name in (chosen := tuple(names)):
        if name not in METHODS:
            raise BadInput(
                f"`methods` must be among {', '.join(METHODS)}, but got {name!r}."
                f"{nearest(name, METHODS)}"
            )
    return chosen


def run_split(
    table_set: TableSet,
    number: int,
    methods: Sequence[str],
    out: Path,
    *,
    force: bool = False,
    data_dir: str | PathLike[str] | None = None,
) -> dict[str, dict[str, Any]]:
    """Run methods on one split, and write what came of each.

    Args:
        table_set: which set.
        number: of the split; the seed of all methods.
        methods: names from `METHODS`; those that are not run on this split are left out.
        out: the folder of all records.
        force: whether to run again what is recorded.
        data_dir: where to look first for data files.

    Returns:
        The records of these methods, by name.
    """
    methods = [name for name in methods if runs_on(name, table_set.name, number)]
    files = {name: record_file(out, table_set.name, number, name) for name in methods}
    found = {name: read_table_record(path) for name, path in files.items()}
    records = {name: each for name, each in found.items() if each is not None}
    wanted = [name for name in methods if force or "scores" not in records.get(name, {})]
    if not wanted:
        return records
    prepared = prepare(load_split(table_set, number, data_dir))
    for name in wanted:
        records[name] = {
            "set": table_set.name,
            "split": number,
            "method": name,
            **_measure(prepared, name),
            "rows": {
                "train": len(prepared.train_rows),
                "aside": len(prepared.aside_rows),
                "test": len(prepared.split.test_targets),
            },
            "versions": software_versions(),
            "hardware": hardware_summary(),
        }
        write_json(files[name], records[name])
    return records


def _measure(prepared: Prepared, name: str) -> dict[str, Any]:
    began = time.perf_counter()
    try:
        fitted = METHODS[name](prepared)
    except NotSupported as error:
        return {"missing": str(error)}
    # A run that diverged is a result too, and the other methods go on.
    except RuntimeError as error:
        return {"missing": f"failed: {error}"}
    split = prepared.split
    score: Any = score_classification if split.is_classification else score_regression
    return {
        "scores": score(fitted.predict(split.test_inputs), split.test_targets),
        "seconds": fitted.seconds,
        "measured_seconds": time.perf_counter() - began,
        "about": fitted.about,
    }
