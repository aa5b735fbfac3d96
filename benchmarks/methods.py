"""`python -m benchmarks.methods`: the wall time of whole methods, relative to a deep ensemble's.

The ensemble has as many members as the method has particles.

All in one process, one after another, with the settings of the studies. A method that starts from
trained networks pays for their training in full, as measured in the same process.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import options as shared
from benchmarks.tables import methods_table
from sbmc.checks import BadInput
from sbmc_studies.experiments.context import prepare_context
from sbmc_studies.experiments.experiment import Experiment, get_experiment
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.resources import Resources
from sbmc_studies.experiments.run_spec import RunSpec
from sbmc_studies.experiments.settings import resolve

# Method, preset and islands. Each is compared with the ensemble of as many members.
Row = tuple[str, str, int]
ROWS: tuple[Row, ...] = (
    ("map", "paper", 1),
    ("de", "paper", 1),
    ("s-hmc", "paper", 1),
    ("hmc", "best", 1),
    ("de", "paper", 8),
    ("s-hmc", "paper", 8),
    ("s-smc", "paper", 8),
)
QUICK_TRAINING = {"max_epochs": 2, "batch_size": 256}
QUICK_SAMPLING = {"particles": 2, "epochs": 6}
QUICK_MOVES = {"particles": 2, "mutations": 1}  # of SMC


def run_once(
    experiment: Experiment,
    method_name: str,
    preset: str,
    islands: int,
    seed: int,
    resources: Resources,
    quick: bool,
    data_dir: Path | None = None,
) -> dict[str, Any]:
    """Run one method and say what it took.

    Args:
        experiment: data, network and settings.
        method_name: the method.
        preset: which of its settings.
        islands: P, for methods that have them.
        seed: of everything random.
        resources: shares trained networks with the methods that follow.
        quick: settings that take no time.
        data_dir: where to look for data first.

    Returns:
        Seconds and epochs.
    """
    method = get_method(method_name)
    overrides: dict[str, Any] = {"islands": islands} if islands > 1 else {}
    if quick:
        sampling = QUICK_MOVES if method_name.endswith("smc") else QUICK_SAMPLING
        overrides |= {**QUICK_TRAINING, **(sampling if method.sampler else {})}
    settings = resolve(experiment, method, preset, overrides)
    folder = None if data_dir is None else str(data_dir)
    spec = RunSpec(experiment.name, method_name, settings, seed, data_dir=folder)
    outcome = method.run(prepare_context(spec, resources))
    sampled = outcome.posterior.cost.wall_seconds or 0.0
    cost = outcome.cost(settings["islands"])
    return {
        "seconds": outcome.wall_seconds,
        "sampling_seconds": sampled,
        "training_seconds": outcome.wall_seconds - sampled,
        "epochs": cost["epochs"],
        "anchor_epochs": cost["anchor_epochs"],
        "total_epochs": cost["total_epochs"],
        "settings": settings,
    }


def summarise(runs: dict[Row, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Medians over the repetitions; the ratio is taken within each repetition first."""
    rows = []
    for (method, preset, islands), each in runs.items():
        ensemble = [run["seconds"] for run in runs["de", "paper", islands]]
        names = [name for name in each[0] if name != "settings"]
        medians = {name: statistics.median(run[name] for run in each) for name in names}
        ratios = [run["seconds"] / base for run, base in zip(each, ensemble, strict=True)]
        rows.append(
            {
                "method": method,
                "preset": preset,
                "islands": islands,
                **medians,
                "relative_to_ensemble": statistics.median(ratios),
                "all_seconds": [run["seconds"] for run in each],
                "settings": each[0]["settings"],
            }
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the methods, write the record, print the table."""
    parser = shared.make_parser("methods", __doc__, repeats=1)
    parser.add_argument("--experiment", default="mnist7", help="see `sbmc experiments`")
    parser.add_argument("--data-dir", type=Path, help="where to look for data first")
    options = shared.parse(parser, arguments)
    runs: dict[Row, list[dict[str, Any]]] = {row: [] for row in ROWS}
    try:
        experiment = get_experiment(options.experiment)
        for seed in range(options.repeats):
            resources = Resources(progress=False)
            for row in ROWS:
                words = "{} {}, {} island(s)".format(*row)
                print(f"{experiment.name}, seed {seed}: {words}", file=sys.stderr, flush=True)
                shared_by = seed, resources, options.quick, options.data_dir
                runs[row].append(run_once(experiment, *row, *shared_by))
    except BadInput as error:
        parser.error(str(error))
    measured = {
        "experiment": experiment.name,
        "repeats": options.repeats,
        "methods": summarise(runs),
    }
    print(methods_table(shared.write_record(options, "methods", measured)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
