"""`python -m benchmarks.folding`: islands folded into one batch against one after the other.

Wall time of an SMC run of 8 islands of 10 particles with a fixed schedule, so that both ways make
exactly the same evaluations. They take turns within each repetition; medians are reported.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from benchmarks import options as shared
from benchmarks.tables import folding_table
from benchmarks.workloads import build_target, draw_positions, get_workload, make_examples
from sbmc.islands.island import Island, start_at_prior
from sbmc.islands.scheduler import run_islands
from sbmc.samplers import HMC, SMC
from sbmc.target.target import Target

# How many times faster the folded run has to be, by workload; the others are for comparison. One
# island of ten particles left a core idle before kernels cut the examples, too: 1.3 was asked for
# then. Now that both ways keep all cores busy, folding must not lose, but for noise.
NEEDED = {"mnist7": 0.9}
WAYS = ("folded", "one by one")


@dataclass(frozen=True)
class Plan:
    """What is measured.

    Attributes:
        islands: how many.
        particles: of each island.
        repeats: repetitions of each timing.
        temperatures: the schedule.
        step_sizes: at each temperature, in whitened units; what they are does not matter here.
        mutations: steps of HMC with one leapfrog step at each temperature.
    """

    islands: int = 8
    particles: int = 10
    repeats: int = 5
    temperatures: tuple[float, ...] = (0.1, 0.4, 1.0)
    step_sizes: tuple[float, ...] = (0.03, 0.02, 0.01)
    mutations: int = 3


QUICK = Plan(
    islands=3, particles=2, repeats=2, temperatures=(0.5, 1.0), step_sizes=(0.03, 0.02), mutations=1
)


def run_way(target: Target, plan: Plan, way: str) -> tuple[float, list[Island]]:
    """Run all islands, in one batch or one batch each.

    Args:
        target: log likelihood and gradient.
        plan: sizes and schedule.
        way: `folded` or `one by one`.

    Returns:
        Wall seconds, and the islands.
    """
    sampler = SMC(
        move=HMC(leapfrog=1),
        mutations=plan.mutations,
        temperatures=plan.temperatures,
        step_sizes=plan.step_sizes,
    )
    began = time.perf_counter()
    islands = run_islands(
        sampler,
        target,
        start_at_prior,
        islands=plan.islands,
        particles=plan.particles,
        seed=0,
        progress=False,
        fold=plan.particles * (plan.islands if way == "folded" else 1),
    )
    return time.perf_counter() - began, islands


def measure_workload(workload: str, plan: Plan, threads: int, quick: bool) -> dict[str, Any]:
    """The row of one workload and number of threads."""
    torch.set_num_threads(threads)
    chosen = get_workload(workload, quick)
    print(f"{chosen.title}: {threads} thread(s)", file=sys.stderr, flush=True)
    target = build_target(chosen, make_examples(chosen, chosen.examples), "fused")
    target(draw_positions(target, plan.particles))  # what torch sets up at first use is not counted
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    epochs: dict[str, list[float]] = {}
    for _ in range(plan.repeats):
        for way in WAYS:
            spent, islands = run_way(target, plan, way)
            seconds[way].append(spent)
            epochs[way] = [island.report.epochs for island in islands]
    if epochs["folded"] != epochs["one by one"]:
        raise RuntimeError(f"the two ways made different evaluations: {epochs}")
    median = {way: statistics.median(values) for way, values in seconds.items()}
    return {
        "workload": workload,
        "title": chosen.title,
        "threads": threads,
        "islands": plan.islands,
        "particles": plan.particles,
        "epochs": epochs["folded"][0],
        "chunk_particles": target.engine.chunks.particles,
        "seconds": median,
        "all_seconds": seconds,
        "folded_over_one_by_one": median["one by one"] / median["folded"],
        # One thread has nothing to run side by side: the goal is for all cores.
        "needed": NEEDED.get(workload) if threads > 1 else None,
    }


def find_failures(record: dict[str, Any]) -> list[str]:
    """Where folding gains less than it has to."""
    return [
        f"{row['title']}, {row['threads']} thread(s): folded is "
        f"{row['folded_over_one_by_one']:.2f} times as fast as one by one, {row['needed']:g} needed"
        for row in record["folding"]
        if row["needed"] is not None and row["folded_over_one_by_one"] < row["needed"]
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the record, print the table.

    Returns:
        The exit code: 1 if folding gains too little; always 0 with `--quick`.
    """
    options = shared.parse(shared.make_parser("folding", __doc__), arguments)
    plan = QUICK if options.quick else Plan()
    if options.repeats:
        plan = replace(plan, repeats=options.repeats)
    # Without a number, with one thread and with all cores.
    threads = [options.threads] if options.threads else sorted({1, os.cpu_count() or 1})
    measured: dict[str, Any] = {
        "threads": threads,
        "repeats": plan.repeats,
        "folding": [
            measure_workload(workload, plan, count, options.quick)
            for workload in ("mnist7", "head")
            for count in threads
        ],
    }
    measured["failures"] = [] if options.quick else find_failures(measured)
    record = shared.write_record(options, "folding", measured)
    print(folding_table(record))
    return shared.tell_failures(record["failures"])


if __name__ == "__main__":
    sys.exit(main())
