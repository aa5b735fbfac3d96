"""`python -m benchmarks.methods`: the wall time of whole methods, relative to a deep ensemble's.

All in one process, one after another, with the settings of the studies. A method that starts from
trained networks pays for their training in full, as measured in the same process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.tables import methods_table
from sbmc.checks import BadInput
from sbmc.studies.experiments import Experiment, get_experiment
from sbmc.studies.methods import get_method
from sbmc.studies.networks import build_network
from sbmc.studies.records import hardware_summary, software_versions
from sbmc.studies.settings import resolve
from sbmc.studies.workshop import Context, Workshop

RECORD = Path(__file__).parent / "records" / "methods.json"
# Method and preset. The ensemble comes before the methods that are compared with it.
ROWS = (("map", "paper"), ("de", "paper"), ("s-hmc", "paper"), ("hmc", "best"))
QUICK_TRAINING = {"max_epochs": 2, "batch_size": 256}
QUICK_SAMPLING = {"particles": 2, "epochs": 6}


def run_once(
    experiment: Experiment,
    method_name: str,
    preset: str,
    seed: int,
    workshop: Workshop,
    quick: bool,
) -> dict[str, Any]:
    """Run one method and say what it took.

    Args:
        experiment: data, network and settings.
        method_name: the method.
        preset: which of its settings.
        seed: of everything random.
        workshop: keeps trained networks for the methods that follow.
        quick: settings that take no time.

    Returns:
        Seconds and epochs.
    """
    method = get_method(method_name)
    overrides: dict[str, Any] = {}
    if quick:
        overrides = {**QUICK_TRAINING, **(QUICK_SAMPLING if method.sampler else {})}
    settings = resolve(experiment, method, preset, overrides)
    data = workshop.data(experiment, seed)
    network = build_network(settings["network"], tuple(data.train[0].shape[1:]), data.classes)
    outcome = method.run(Context(experiment, settings, seed, data, network, workshop))
    sampling = outcome.posterior.cost.wall_seconds or 0.0
    cost = outcome.cost(settings["islands"])
    return {
        "seconds": outcome.wall_seconds,
        "sampling_seconds": sampling,
        "training_seconds": outcome.wall_seconds - sampling,
        "epochs": cost["epochs"],
        "anchor_epochs": cost["anchor_epochs"],
        "total_epochs": cost["total_epochs"],
        "settings": settings,
    }


def summarise(runs: dict[tuple[str, str], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Medians over the repetitions; the ratio is taken within each repetition first."""
    ensemble = [run["seconds"] for run in runs["de", "paper"]]
    rows = []
    for (method, preset), each in runs.items():
        names = [name for name in each[0] if name != "settings"]
        medians = {name: statistics.median(run[name] for run in each) for name in names}
        ratios = [run["seconds"] / base for run, base in zip(each, ensemble, strict=True)]
        rows.append(
            {
                "method": method,
                "preset": preset,
                **medians,
                "relative_to_ensemble": statistics.median(ratios),
                "all_seconds": [run["seconds"] for run in each],
                "settings": each[0]["settings"],
            }
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the methods, write the record, print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.methods", description=__doc__)
    parser.add_argument("--experiment", default="mnist7", help="see `sbmc experiments`")
    parser.add_argument("--repeats", type=int, default=1, help="each with its own seed, from 0")
    parser.add_argument("--threads", type=int, help="torch's threads; its own choice if not given")
    parser.add_argument("--data-dir", type=Path, help="where to look for data first")
    parser.add_argument("--out", type=Path, default=RECORD, help="where the record goes")
    parser.add_argument("--quick", action="store_true", help="meaningless settings: for tests")
    options = parser.parse_args(arguments)
    for name in ("threads", "repeats"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"`{name}` must be a positive integer, but got {value}.")
    if options.threads:
        torch.set_num_threads(options.threads)

    load = os.getloadavg()[0]  # before the benchmark adds to it
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {row: [] for row in ROWS}
    try:
        experiment = get_experiment(options.experiment)
        for seed in range(options.repeats):
            workshop = Workshop(options.data_dir, progress=False)
            for row in ROWS:
                print(
                    f"{experiment.name}, seed {seed}: {' '.join(row)}", file=sys.stderr, flush=True
                )
                runs[row].append(run_once(experiment, *row, seed, workshop, options.quick))
    except BadInput as error:
        parser.error(str(error))
    record = {
        "benchmark": "methods",
        "quick": options.quick,
        "experiment": experiment.name,
        "repeats": options.repeats,
        "threads": torch.get_num_threads(),
        "methods": summarise(runs),
        "load": load,
        "hardware": hardware_summary(),
        "versions": software_versions(),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    print(methods_table(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
