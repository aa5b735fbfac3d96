"""`python -m benchmarks.engine`: the ways to evaluate a model, side by side.

Seconds per epoch and particle (one gradient over all examples for one particle) and peak memory of
the fused, the vmap and the loop path, and of a plain loop without the engine, on two networks, for
10 and 80 particles. They take turns within each repetition, so that whatever else the machine does
falls on all of them; medians are reported.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.memory import measure_peak
from benchmarks.tables import engine_table
from benchmarks.workloads import WAYS, build_way, draw_positions, get_workload, make_examples
from sbmc.studies.records import hardware_summary, software_versions

RECORD = Path(__file__).parent / "records" / "engine.json"
# Peaks of the same computation differ by this much from process to process.
MEMORY_SLACK = 16 * 2**20


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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    parser.add_argument("--threads", type=int, help="torch's threads; its own choice if not given")
    parser.add_argument("--repeats", type=int, help="repetitions of each timing")
    parser.add_argument("--out", type=Path, default=RECORD, help="where the record goes")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, no verdict: for tests")
    options = parser.parse_args(arguments)
    for name in ("threads", "repeats"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"`{name}` must be a positive integer, but got {value}.")
    if options.threads:
        torch.set_num_threads(options.threads)
    threads = torch.get_num_threads()
    plan = QUICK if options.quick else Plan()
    if options.repeats:
        plan = Plan(plan.particles, options.repeats, plan.memory, plan.growth)

    load = os.getloadavg()[0]  # before the benchmark adds to it
    speed = [
        row
        for workload in ("mnist7", "head")
        for row in measure_workload(workload, plan, threads, options.quick)
    ]
    record: dict[str, Any] = {
        "benchmark": "engine",
        "quick": options.quick,
        "threads": threads,
        "repeats": plan.repeats,
        "speed": speed,
        "growth": measure_growth(plan, threads, options.quick),
        "load": load,
        "hardware": hardware_summary(),
        "versions": software_versions(),
    }
    record["failures"] = [] if options.quick else find_failures(record)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    print(engine_table(record))
    for failure in record["failures"]:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if record["failures"] else 0


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
