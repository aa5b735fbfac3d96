"""`python -m benchmarks.prediction`: predicting against sampling, per particle and example.

All particles of all islands over a test set, entropies and moments included, beside the forward
half of an epoch of sampling (the log likelihood alone) and a whole epoch (with its gradient), on
the same examples. They take turns within each repetition; medians are reported.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from benchmarks import options as shared
from benchmarks.tables import line, machine_words
from benchmarks.workloads import build_target, draw_positions, get_workload, make_examples
from sbmc.islands.cost import Cost
from sbmc.islands.island import IslandReport
from sbmc.likelihoods import Categorical
from sbmc.model.data import Examples
from sbmc.model.parameters import select_parameters
from sbmc.posterior.posterior import Posterior
from sbmc.target.target import Target

# How many epochs of sampling a prediction may take, by workload; others are for comparison. It has
# no gradient, but makes entropies and moments, in float64: those cost more than a layer of two
# outputs.
ALLOWED = {"mnist7": 1.25, "cifar": 1.25}
WAYS = ("prediction", "forward half of an epoch", "epoch")


@dataclass(frozen=True)
class Plan:
    """What is measured.

    Attributes:
        islands: how many.
        particles: of each island.
        examples: of the test set.
        repeats: repetitions of each timing.
        workloads: by name.
    """

    islands: int = 8
    particles: int = 10
    examples: int = 10_000
    repeats: int = 5
    workloads: tuple[str, ...] = ("mnist7", "head", "cifar")


QUICK = Plan(islands=2, particles=2, examples=50, repeats=2)


def build_posterior(
    model: torch.nn.Module, target: Target, positions: torch.Tensor, islands: int
) -> Posterior:
    """The posterior whose particles stand at these positions."""
    theta = target.prior.to_parameters(positions)
    return Posterior(
        model,
        select_parameters(model),
        Categorical(),
        theta.view(islands, -1, target.dim),
        log_evidence=torch.zeros(islands, dtype=torch.float64),
        islands=[IslandReport(index, "completed") for index in range(islands)],
        cost=Cost(0.0, 0.0, 0.0, 0.0, None),
        settings={},
    )


def measure_workload(workload: str, plan: Plan, quick: bool) -> dict[str, Any]:
    """The row of one workload."""
    chosen = get_workload(workload, quick)
    print(f"{chosen.title}: predicting", file=sys.stderr, flush=True)
    examples: Examples = make_examples(chosen, plan.examples)
    target = build_target(chosen, examples, "fused")
    positions = draw_positions(target, plan.islands * plan.particles)
    posterior = build_posterior(chosen.network(), target, positions, plan.islands)
    ways: dict[str, Callable[[], object]] = dict(
        zip(
            WAYS,
            (
                lambda: posterior.predict(examples.inputs),
                lambda: target.log_likelihood(positions),
                lambda: target(positions),
            ),
            strict=True,
        )
    )
    posterior.predict(examples.inputs[:2])  # what is set up at first use is not counted
    target(positions[:1])
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(plan.repeats):
        for way, run in ways.items():
            began = time.perf_counter()
            run()
            seconds[way].append(time.perf_counter() - began)
    pairs = len(positions) * len(examples)
    median = {way: statistics.median(values) / pairs for way, values in seconds.items()}
    return {
        "workload": workload,
        "title": chosen.title,
        "particles": len(positions),
        "examples": len(examples),
        "seconds_per_particle_and_example": median,
        "all_seconds": seconds,
        "over_forward": median[WAYS[0]] / median[WAYS[1]],
        "over_epoch": median[WAYS[0]] / median[WAYS[2]],
        "allowed": ALLOWED.get(workload),
    }


def find_failures(record: dict[str, Any]) -> list[str]:
    """Where predicting takes longer than it may."""
    return [
        f"{row['title']}: a prediction takes {row['over_epoch']:.2f} epochs, "
        f"{row['allowed']:g} allowed"
        for row in record["prediction"]
        if row["allowed"] is not None and row["over_epoch"] > row["allowed"]
    ]


def prediction_table(record: dict[str, Any]) -> str:
    """The record as a table."""
    lines = [
        f"Medians of {record['repeats']} repetitions; {machine_words(record)}.",
        "",
        "| problem | particles | examples | microseconds per particle and example: prediction "
        "| forward half of an epoch | epoch | prediction against the half | against the epoch |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in record["prediction"]:
        seconds = row["seconds_per_particle_and_example"]
        cells = [row["title"].partition(", ")[0], str(row["particles"]), f"{row['examples']:,}"]
        cells += [f"{1e6 * seconds[way]:.3f}" for way in WAYS]
        cells += [f"{row['over_forward']:.2f}×", f"{row['over_epoch']:.2f}×"]
        lines.append(line(cells))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the record, print the table.

    Returns:
        The exit code: 1 if predicting takes too long; always 0 with `--quick`.
    """
    options = shared.parse(shared.make_parser("prediction", __doc__), arguments)
    plan = QUICK if options.quick else Plan()
    if options.repeats:
        plan = replace(plan, repeats=options.repeats)
    measured: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "repeats": plan.repeats,
        "prediction": [measure_workload(name, plan, options.quick) for name in plan.workloads],
    }
    measured["failures"] = [] if options.quick else find_failures(measured)
    record = shared.write_record(options, "prediction", measured)
    print(prediction_table(record))
    return shared.tell_failures(record["failures"])


if __name__ == "__main__":
    sys.exit(main())
