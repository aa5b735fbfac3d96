"""Running the study: one record for each network and seed, which grows method by method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from sbmc_studies.gauntlet import methods as gauntlet
from sbmc_studies.gauntlet.averaging import swa
from sbmc_studies.gauntlet.fitted import DEFAULT, Fitted, PairRun
from sbmc_studies.gauntlet.pairs import Pair
from sbmc_studies.gauntlet.running import measure_method, read_pair_record, record_methods
from sbmc_studies.mnist.pairs import CLAIMS, STUDY, load_mnist, mnist_pairs, mnist_seeds

METHODS: dict[str, Callable[[PairRun], Fitted]] = {
    **{name: gauntlet.METHODS[name] for name in ("network", "temperature", "ensemble-5", DEFAULT)},
    "swa": swa,
    **{name: gauntlet.METHODS[name] for name in ("swag", "sms-ubu")},
}


def record_file(out: Path, pair: str, seed: int) -> Path:
    """Where the record of a network and seed is."""
    return out / STUDY / pair / f"seed_{seed}.json"


def run_mnist_pair(
    pair: Pair,
    seed: int,
    methods: Sequence[str],
    out: Path,
    *,
    force: bool = False,
    data_dir: str | PathLike[str] | None = None,
) -> dict[str, Any]:
    """Run methods on one network with one seed, and write what came of them.

    Args:
        pair: which.
        seed: of data, networks and samplers.
        methods: names from `METHODS`.
        out: the folder of all records.
        force: whether to run again what the record has.
        data_dir: where to look first for `mnist.npz`.

    Returns:
        The record.
    """
    return record_methods(
        pair,
        seed,
        methods,
        record_file(out, pair.name, seed),
        partial(measure_method, methods=METHODS),
        force=force,
        data_dir=data_dir,
        load=load_mnist,
    )


def read_mnist_records(out: Path, part: str = CLAIMS) -> list[dict[str, Any]]:
    """All records that there are of a part."""
    records = [
        read_pair_record(record_file(out, pair.name, seed))
        for pair in mnist_pairs(part)
        for seed in mnist_seeds(part)
    ]
    return [record for record in records if record["methods"]]
