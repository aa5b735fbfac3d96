"""`python -m benchmarks.engine`: the ways to evaluate a model, side by side.

Seconds per epoch and particle (one gradient over all examples for one particle) and peak memory of
the fused, the vmap and the loop path, and of a plain loop without the engine, on two networks, for
10 and 80 particles. They take turns within each repetition, so that whatever else the machine does
falls on all of them; medians are reported.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from benchmarks import options as shared
from benchmarks.memory import measure_peak
from benchmarks.tables import engine_table
from benchmarks.workloads import WAYS, build_way, draw_positions, get_workload, make_examples
from sbmc.target.memory_needs import PREPARED_BYTES

# What a target may keep of the data, whatever their number, and what peaks of the same computation
# differ by from process to process.
MEMORY_SLACK = PREPARED_BYTES + 16 * 2**20


@dataclass(frozen=True)
class Plan:
    """What is measured.

    Attributes:
        particles: numbers of particles.
        repeats: repetitions of each timing.
        memory: workloads whose memory is measured for every way and number of particles.
        growth: numbers of examples for which the fused path's memory is measured.
    """

    particles: tuple[int, ...] = (10, 80)
    repeats: int = 7
    memory: tuple[str, ...] = ("mnist7", "head")
    growth: tuple[int, ...] = (1_200, 12_000, 48_000)


QUICK = Plan(particles=(2,), repeats=2, memory=("mnist7",), growth=(32, 64))


def time_ways(workload: str, particles: int, repeats: int, quick: bool) -> dict[str, list[float]]:
    """Seconds per epoch and particle of each way, one value per repetition.

    Args:
        workload: its name.
        particles: how many are evaluated at once.
        repeats: how often; the ways take turns, after one evaluation each that is not counted.
        quick: tiny sizes.

    Returns:
        The seconds, by way.
    """
    chosen = get_workload(workload, quick)
    data = make_examples(chosen, chosen.examples)
    targets = {way: build_way(chosen, data, way) for way in WAYS}
    positions = {way: draw_positions(target, particles) for way, target in targets.items()}
    for way, target in targets.items():
        target(positions[way])
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(repeats):
        for way, target in targets.items():
            began = time.perf_counter()
            target(positions[way])
            seconds[way].append((time.perf_counter() - began) / particles)
    return seconds


def measure_workload(workload: str, plan: Plan, threads: int, quick: bool) -> list[dict[str, Any]]:
    """The rows of one workload, one for each number of particles."""
    chosen = get_workload(workload, quick)
    rows = []
    for particles in plan.particles:
        _say(f"{chosen.title}: {particles} particles")
        seconds = time_ways(workload, particles, plan.repeats, quick)
        median = {way: statistics.median(values) for way, values in seconds.items()}
        row: dict[str, Any] = {
            "workload": workload,
            "title": chosen.title,
            "examples": chosen.examples,
            "particles": particles,
            "seconds_per_epoch_and_particle": median,
            "all_seconds": seconds,
            "fused_over": {way: median[way] / median["fused"] for way in WAYS if way != "fused"},
            "needed": chosen.needed,
            "peak_bytes": None,
        }
        if workload in plan.memory:
            row["peak_bytes"] = {
                way: measure_peak(
                    workload, way, particles, chosen.examples, threads=threads, quick=quick
                )
                for way in WAYS
            }
        rows.append(row)
    return rows


def measure_growth(plan: Plan, threads: int, quick: bool) -> list[dict[str, int]]:
    """Peak memory of the fused path beyond the data, as the examples grow in number."""
    rows = []
    for examples in plan.growth:
        _say(f"memory with {examples:,} examples")
        peak = measure_peak(
            "mnist7", "fused", plan.particles[0], examples, threads=threads, quick=quick
        )
        rows.append({"examples": examples, "particles": plan.particles[0], "peak_bytes": peak})
    return rows


def find_failures(record: dict[str, Any]) -> list[str]:
    """What the record shows that it must not: a fused path too slow, or memory that grows."""
    slow = [
        f"{row['title']}, {row['particles']} particles: fused is "
        f"{row['fused_over']['plain loop']:.1f} times as fast as a plain loop, "
        f"{row['needed']:g} needed"
        for row in record["speed"]
        if row["fused_over"]["plain loop"] < row["needed"]
    ]
    first, *rest = record["growth"]
    grown = [
        f"{row['examples']:,} examples take {row['peak_bytes'] / 2**20:.0f} MiB beyond the data, "
        f"{first['examples']:,} take {first['peak_bytes'] / 2**20:.0f}"
        for row in rest
        if row["peak_bytes"] > first["peak_bytes"] + MEMORY_SLACK
    ]
    return slow + grown


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the record, print the tables.

    Returns:
        The exit code: 1 if the fused path is too slow or memory grows with the examples; always 0
        with `--quick`.
    """
    options = shared.parse(shared.make_parser("engine", __doc__), arguments)
    threads = torch.get_num_threads()
    plan = QUICK if options.quick else Plan()
    if options.repeats:
        plan = replace(plan, repeats=options.repeats)
    measured: dict[str, Any] = {
        "repeats": plan.repeats,
        "speed": [
            row
            for workload in ("mnist7", "head")
            for row in measure_workload(workload, plan, threads, options.quick)
        ],
        "growth": measure_growth(plan, threads, options.quick),
    }
    measured["failures"] = [] if options.quick else find_failures(measured)
    record = shared.write_record(options, "engine", measured)
    print(engine_table(record))
    return shared.tell_failures(record["failures"])


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
