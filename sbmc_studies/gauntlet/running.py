"""Running the gauntlet: one record for each pair and seed, which grows method by method.

The record is written after every method. A run that was stopped goes on with what is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from sbmc.checks import BadInput, nearest
from sbmc.datasets.bundle import DataBundle
from sbmc.log import logger
from sbmc.storage.files import parse_json, write_json
from sbmc.storage.provenance import hardware_summary, software_versions
from sbmc_studies.gauntlet.check import check_run
from sbmc_studies.gauntlet.data import load_pair_data
from sbmc_studies.gauntlet.fitted import Fitted, NotSupported, PairRun
from sbmc_studies.gauntlet.methods import METHODS
from sbmc_studies.gauntlet.pairs import Pair
from sbmc_studies.gauntlet.scoring import score

# What `--quick` runs: small pairs of both parts and of several kinds.
QUICK_PAIRS = (
    "digits-mlp-2x64",
    "digits-cnn",
    "australian-mlp-1x32",
    "vehicle-mlp-4x64",
    "waveform-mlp-1x512",
    "cifar10-head",
)
# Of the records: what a run trains and measures. Results of different numbers are not put together.
PROTOCOL = 2
QUICK_METHODS = ("network", "temperature", "ensemble-5", "sbmc")


def record_file(out: Path, pair: str, seed: int) -> Path:
    """Where the record of a pair and seed is."""
    return out / "gauntlet" / pair / f"seed_{seed}.json"


def check_file(out: Path, pair: str, seed: int) -> Path:
    """Where the record of the check against long chains is."""
    return out / "gauntlet_check" / pair / f"seed_{seed}.json"


def read_pair_record(path: Path) -> dict[str, Any]:
    """The record, or an empty one.

    Raises:
        BadInput: the file is no record of the gauntlet.
    """
    if not path.is_file():
        return {"methods": {}}
    try:
        content = parse_json(path.read_bytes())
    except ValueError as error:
        raise BadInput(f"`{path}` must be a JSON record, but {error}. Delete or mend it.") from None
    if not isinstance(content, dict) or not isinstance(content.get("methods"), dict):
        raise BadInput(f"`{path}` must have an object `methods`. Delete it to run the pair again.")
    return content


def check_methods(
    names: Iterable[str], methods: Mapping[str, Callable[[PairRun], Fitted]] = METHODS
) -> tuple[str, ...]:
    """Refuse names that are no methods of the study, by default of the gauntlet."""
    for name in (chosen := tuple(names)):
        if name not in methods:
            raise BadInput(
                f"`method` must be one of {', '.join(methods)}, but got {name!r}."
                f"{nearest(name, methods)}"
            )
    return chosen


def run_pair(
    pair: Pair,
    seed: int,
    methods: Sequence[str],
    out: Path,
    *,
    force: bool = False,
    data_dir: str | PathLike[str] | None = None,
) -> dict[str, Any]:
    """Run methods on one pair with one seed, and write what came of them.

    Args:
        pair: which.
        seed: of data, networks and samplers.
        methods: names from `METHODS`.
        out: the folder of all records.
        force: whether to run again what the record has.
        data_dir: where to look first for data files.

    Returns:
        The record.
    """
    path = record_file(out, pair.name, seed)
    return record_methods(pair, seed, methods, path, measure_method, force=force, data_dir=data_dir)


def check_pair(
    pair: Pair,
    seed: int,
    methods: Sequence[str],
    out: Path,
    *,
    force: bool = False,
    data_dir: str | PathLike[str] | None = None,
) -> dict[str, Any]:
    """Check runs of our defaults on one pair against chains ten times as long.

    Args:
        pair: which.
        seed: of the run.
        methods: `"sbmc"`, `"sbmc-no-validation"` or both.
        out: the folder of all records.
        force: whether to check again what has been checked.
        data_dir: where to look first for data files.

    Returns:
        The record of the check, which is in a file of its own.
    """
    path = check_file(out, pair.name, seed)
    return record_methods(pair, seed, methods, path, check_run, force=force, data_dir=data_dir)


def record_methods(
    pair: Pair,
    seed: int,
    methods: Sequence[str],
    path: Path,
    measure: Callable[[PairRun, str], dict[str, Any]],
    *,
    force: bool,
    data_dir: str | PathLike[str] | None,
    load: Callable[..., DataBundle] = load_pair_data,
) -> dict[str, Any]:
    """Measure what a record does not have, and write it after each method.

    Args:
        pair: which.
        seed: of data, networks and samplers.
        methods: their names.
        path: of the record.
        measure: from a run and a method's name to what the record says of it.
        force: whether to measure again what the record has.
        data_dir: where to look first for data files.
        load: from the name of the data, the seed and `data_dir` to the data.

    Returns:
        The record.
    """
    record = read_pair_record(path)
    if record.get("protocol") != PROTOCOL:
        if record["methods"]:
            logger.warning("%s is of an older protocol, and is made anew", path)
        record = {"methods": {}}
    wanted = [name for name in methods if force or name not in record["methods"]]
    if not wanted:
        return record
    data = load(pair.data, seed, data_dir)
    run = PairRun(pair, data, seed)
    record |= {
        "protocol": PROTOCOL,
        "pair": pair.name,
        "part": pair.part,
        "seed": seed,
        "data": {"name": pair.data, "checksum": data.checksum},
        "rows": {name: len(getattr(data, name)[1]) for name in ("train", "validation", "test")},
        "versions": software_versions(),
        "hardware": hardware_summary(),
    }
    for name in wanted:
        record["methods"][name] = measure(run, name)
        write_json(path, record)
    return record


def measure_method(
    run: PairRun, name: str, methods: Mapping[str, Callable[[PairRun], Fitted]] = METHODS
) -> dict[str, Any]:
    """What a record says of a method: scores and costs, or why there are none.

    Args:
        run: the pair, its data and networks.
        name: of the method.
        methods: all that there are.
    """
    began = time.perf_counter()
    try:
        fitted = methods[name](run)
    except NotSupported as error:
        return {"missing": str(error)}
    # A run that diverged is a result too, and the other methods go on.
    except RuntimeError as error:
        return {"missing": f"failed: {error}", "failed": True}
    inside = fitted.predict(run.data.test[0])
    outside = {group: fitted.predict(rows) for group, rows in run.data.ood.items()}
    return {
        "scores": score(inside, run.data.test[1], outside),
        "seconds": fitted.seconds,
        "passes": fitted.passes,
        "about": fitted.about,
        "measured_seconds": time.perf_counter() - began,
    }
