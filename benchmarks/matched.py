"""`python -m benchmarks.matched`: what a second buys: MAP, deep ensembles and SBMC at equal time.

All in one process, one after another, with the settings of a study. Each sampler pays for its
anchor. Beside it stands the ensemble that as many seconds train: its members are counted from how
long the ensemble of ten took. What each is worth is measured on the test data at once.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import options as shared
from benchmarks.tables import line, machine_words
from sbmc.checks import BadInput
from sbmc.posterior.posterior import Posterior
from sbmc.prediction.metrics import classification_metrics, ood_metrics
from sbmc_studies.commands.options import parse_assignment
from sbmc_studies.experiments.context import prepare_context
from sbmc_studies.experiments.experiment import Experiment, get_experiment
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.resources import Resources
from sbmc_studies.experiments.run_spec import RunSpec
from sbmc_studies.experiments.settings import resolve

SAMPLERS = ("s-hmc", "s-smc")
TEN = 10
METRICS = (
    *("accuracy", "nll", "ece"),
    *("entropy.epistemic.correct", "entropy.epistemic.incorrect", "entropy.epistemic.ood.all"),
)
QUICK = {"max_epochs": 2, "batch_size": 256}
QUICK_SAMPLING = {"s-hmc": {"particles": 2, "steps": 2}, "s-smc": {"particles": 2, "mutations": 1}}


def measure(
    experiment: Experiment,
    name: str,
    resources: Resources,
    seed: int,
    changes: dict[str, Any],
    data_dir: Path | None = None,
) -> dict[str, Any]:
    """Run a method once: its seconds, and what it is worth on the test data.

    Islands of an SMC sampler count the same, as we recommend.

    Args:
        experiment: data, network and settings.
        name: the method.
        resources: shares the trained anchor with the next sampler, and the seconds that it took.
        seed: of everything random.
        changes: settings that differ from the preset `paper`; those that it lacks are left out.
        data_dir: where to look for data first.

    Returns:
        `method`, `members`, `seconds`, `epochs` in all, and metrics.
    """
    method = get_method(name)
    known = method.setting_names(resolve(experiment, method, "paper")) - set(method.fixed)
    own = {key: value for key, value in changes.items() if key in known}
    settings = resolve(experiment, method, "paper", own)
    folder = None if data_dir is None else str(data_dir)
    spec = RunSpec(experiment.name, name, settings, seed, data_dir=folder)
    context = prepare_context(spec, resources)
    outcome = method.run(context)
    posterior: Posterior = outcome.posterior
    if name.endswith("smc"):
        posterior = posterior.reweighted("equal")
    inputs, labels = context.data.test
    outside = {group: posterior.predict(each) for group, each in context.data.ood.items()}
    metrics = classification_metrics(posterior.predict(inputs), labels)
    if outside:
        metrics |= ood_metrics(outside)
    return {
        "method": name,
        "members": math.prod(posterior.positions.shape[:2]),
        "seconds": outcome.wall_seconds,
        "epochs": outcome.cost(settings["islands"])["total_epochs"],
        **{name: metrics.get(name) for name in METRICS},
    }


def members_for(seconds: float, ten: dict[str, Any]) -> int:
    """How many members an ensemble may have to take that long, at least two."""
    return max(2, round(TEN * seconds / ten["seconds"]))


def matched_table(record: dict[str, Any]) -> str:
    """The record as a table; `gain`: NLL below the MAP's in thousandths, over the seconds more."""
    words = ", ".join(f"{name} = {value}" for name, value in record["settings"].items())
    lines = [
        f"{record['experiment']}{': ' if words else ''}{words}; {machine_words(record)}.",
        "",
        "| | P | members | epochs in all | seconds | accuracy % | NLL | ECE | H_ep correct "
        "| H_ep incorrect | H_ep OOD | gain a second |",
        "|---" + "|---:" * 11 + "|",
    ]
    base = next(run for run in record["runs"] if run["method"] == "map")
    for run in record["runs"]:
        more = run["seconds"] - base["seconds"]
        gain = f"{1e3 * (base['nll'] - run['nll']) / more:.3f}" if more > 0 else "–"
        cells = [run["role"], str(run["islands"]), str(run["members"]), f"{run['epochs']:,.0f}"]
        cells += [f"{run['seconds']:.1f}", f"{100 * run['accuracy']:.2f}"]
        cells += ["–" if run[name] is None else f"{run[name]:.4f}" for name in METRICS[1:]]
        lines.append(line([*cells, gain]))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the methods, write the record, print the table."""
    parser = shared.make_parser("matched", __doc__)
    parser.add_argument("--experiment", default="mnist7", help="see `sbmc experiments`")
    parser.add_argument("--islands", default="1,8", help="P of the samplers, with commas")
    parser.add_argument("--set", action="append", default=[], help="a setting of all: NAME=VALUE")
    parser.add_argument("--seed", type=int, default=0, help="of everything random")
    parser.add_argument("--data-dir", type=Path, help="where to look for data first")
    options = shared.parse(parser, arguments)
    if options.out == parser.get_default("out"):
        options.out = options.out.with_name(f"matched_{options.experiment}.json")
    runs: list[dict[str, Any]] = []

    def run(name: str, role: str, changes: dict[str, Any]) -> dict[str, Any]:
        words = ", ".join(f"{key} = {value}" for key, value in changes.items())
        print(f"{experiment.name}: {role} {words}", file=sys.stderr, flush=True)
        quick = {**QUICK, **QUICK_SAMPLING.get(name, {})} if options.quick else {}
        changes = {**quick, **given, **changes}
        found = measure(experiment, name, resources, options.seed, changes, options.data_dir)
        runs.append({"role": role, "islands": changes.get("islands", 1), **found})
        return found

    try:
        experiment = get_experiment(options.experiment)
        given = dict(parse_assignment(each) for each in options.set)
        resources = Resources(progress=False)
        run("map", "MAP", {})
        ten = run("de", "deep ensemble", {"particles": TEN})
        for islands in map(int, options.islands.split(",")):
            for name in SAMPLERS:
                label = get_method(name).label
                done = run(name, label, {"islands": islands})
                members = members_for(done["seconds"], ten)
                run("de", "– ensemble in as many seconds", {"particles": members})
    except BadInput as error:
        parser.error(str(error))
    measured = {
        "experiment": experiment.name,
        "settings": given,
        "seed": options.seed,
        "runs": runs,
    }
    print(matched_table(shared.write_record(options, "matched", measured)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
