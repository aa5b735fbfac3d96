"""`python -m benchmarks.simulation`: ten to 100,000 islands on one to 10,000 workers, simulated.

The times are measured ones: those of islands, with their spread, and of starting a worker from
`records/scaling.json`, of the driver from `records/many_islands.json`, of writing a state from
`records/checkpoint_overhead.json`. What no single machine can show is assumed: a network of ten
gigabits a second, and workers that die once in so many days. Writes `records/simulation.json` and
the picture of docs/scaling.md.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import options as shared
from benchmarks.cluster import Cluster, simulate
from benchmarks.scaling import ONE, TWO
from benchmarks.scaling_picture import build_figures
from benchmarks.scaling_tables import failures_table, simulation_table
from sbmc.islands.checkpoints.options import EVERY
from sbmc.report.pictures import draw_picture, write_picture
from sbmc.storage.provenance import hardware_summary, software_versions

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "scaling.png"
HOUR, DAY = 3600.0, 86_400.0
# The budget of an island in the paper, in epochs.
EPOCHS = 160
# Assumed: bytes a second of the driver's network.
BANDWIDTH = 1.25e9


@dataclass(frozen=True)
class Plan:
    """What is simulated.

    Attributes:
        islands: numbers of islands.
        workers: numbers of workers.
        lengths: seconds of an island, beside the measured one, for the driver's limit.
        days: mean time of a worker between two deaths, for the islands of an hour.
        usual: the same in all other simulations.
        crew: workers and islands of the simulation of deaths.
        seed: of all chance.
    """

    islands: tuple[int, ...] = (10, 100, 1_000, 10_000, 100_000)
    workers: tuple[int, ...] = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000)
    lengths: tuple[float, ...] = (1.0, 60.0, HOUR)
    days: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    usual: float = 1.0
    crew: tuple[int, int] = (1_000, 10_000)
    seed: int = 0


QUICK = Plan(islands=(10, 100), workers=(1, 10), lengths=(1.0,), days=(0.03, 1.0), crew=(10, 100))


def read_constants(records: Path) -> dict[str, Any]:
    """What the simulation takes from measurements.

    Args:
        records: the folder of the other three records.

    Returns:
        Plain values, for the record too.

    Raises:
        SystemExit: one of them is missing.
    """
    scaling, many, writing = (
        _read(records, name) for name in ("scaling", "many_islands", "checkpoint_overhead")
    )
    rows = {row["way"]: row for row in scaling["rows"]}
    one = rows[ONE]
    island = statistics.median(one["batch_seconds"])
    # Within a run: from one run to the next the machine itself changes its pace.
    logs = [math.log(seconds) for seconds in one["batch_seconds"] + rows[TWO]["batch_seconds"]]
    size, spreads = one["islands"], []
    for first in range(0, len(logs), size):
        spreads.append(statistics.variance(logs[first : first + size]))
    ways = {row["way"]: row for row in many["rows"]}
    few, crowd = ways["Ray"], ways["Ray, all islands handed over at once"]
    # All are handed over at the start, so that half of them are under way on average.
    of_ray = _slope(few, {**crowd, "under_way": crowd["under_way"] / 2}, "driver_per_island")
    first, last = many["driver"][0], many["driver"][-1]
    hearing = _slope(first, last, "seconds_per_news")
    states = {row["interval"]: row for row in writing["rows"]}
    return {
        "epoch_seconds": island / one["epochs"],
        "island_seconds": island / one["epochs"] * EPOCHS,
        "spread": math.sqrt(statistics.mean(spreads)),
        "start": one["start_up_seconds"],
        "payload_bytes": one["payload_bytes"],
        "result_bytes": one["result_bytes"],
        "submit": few["driver_per_island"],
        "crowd": of_ray + _slope(first, last, "seconds_per_island"),
        "news": max(0.0, first["seconds_per_news"] - hearing * first["under_way"]),
        "news_crowd": hearing,
        "write": states["every place"]["seconds_per_state"],
        "bandwidth": BANDWIDTH,
    }


def _slope(few: dict[str, Any], many: dict[str, Any], name: str) -> float:
    """Seconds more for each island under way."""
    return max(0.0, many[name] - few[name]) / (many["under_way"] - few["under_way"])


def _read(records: Path, name: str) -> dict[str, Any]:
    file = records / f"{name}.json"
    if not file.exists():
        raise SystemExit(f"{file} is missing: python -m benchmarks.{name} makes it.")
    return json.loads(file.read_text("utf-8"))


def draw_times(count: int, mean: float, spread: float, seed: int) -> list[float]:
    """Log-normal times of islands with this mean, and this standard deviation of the logarithm."""
    rng = random.Random(seed)
    middle = math.log(mean) - spread**2 / 2
    return [rng.lognormvariate(middle, spread) for _ in range(count)]


def cluster_of(constants: dict[str, Any], workers: int, days: float) -> Cluster:
    """A cluster of the measured constants, with checkpoints at the usual interval."""
    return Cluster(
        workers=workers,
        start=constants["start"],
        payload=constants["payload_bytes"] / constants["bandwidth"],
        submit=constants["submit"] + constants["result_bytes"] / constants["bandwidth"],
        crowd=constants["crowd"],
        news=constants["news"],
        news_crowd=constants["news_crowd"],
        failure_rate=1 / (days * DAY),
        checkpoint=EVERY,
        write=constants["write"],
        retries=2,
    )


def driver_limit(constants: dict[str, Any], seconds: float) -> float:
    """With how many workers the driver is busy all the time.

    The solution of w · (submit + crowd · w) = seconds: w workers ask for an island every
    `seconds` / w, and the driver needs so long for it.
    """
    submit = constants["submit"] + constants["result_bytes"] / constants["bandwidth"]
    crowd = constants["crowd"]
    if crowd == 0:
        return seconds / submit
    return (math.sqrt(submit**2 + 4 * crowd * seconds) - submit) / (2 * crowd)


def run_grid(constants: dict[str, Any], plan: Plan) -> list[dict[str, Any]]:
    """All numbers of islands on all numbers of workers, for islands of the measured length."""
    return [
        _row(constants, plan, islands, workers, constants["island_seconds"])
        for islands in plan.islands
        for workers in plan.workers
    ]


def run_lengths(constants: dict[str, Any], plan: Plan) -> list[dict[str, Any]]:
    """Islands of other lengths, the most of them, on all numbers of workers."""
    return [
        _row(constants, plan, plan.islands[-1], workers, length)
        for length in plan.lengths
        for workers in plan.workers
    ]


def _row(
    constants: dict[str, Any], plan: Plan, islands: int, workers: int, length: float
) -> dict[str, Any]:
    print(f"{islands:,} islands of {length:.0f} s on {workers:,}", file=sys.stderr, flush=True)
    times = draw_times(islands, length, constants["spread"], plan.seed)
    outcome = simulate(times, cluster_of(constants, workers, plan.usual), plan.seed)
    named = {"islands": islands, "island_seconds": length, "efficiency": outcome.efficiency}
    return {**named, **asdict(outcome)}


def run_failures(constants: dict[str, Any], plan: Plan) -> list[dict[str, Any]]:
    """Islands of an hour on workers that die more or less often, with and without checkpoints."""
    workers, islands = plan.crew
    times = draw_times(islands, HOUR, constants["spread"], plan.seed)
    rows = []
    for days in plan.days:
        for interval in (EVERY, math.inf):
            for retries in (2, None):
                cluster = replace(
                    cluster_of(constants, workers, days), checkpoint=interval, retries=retries
                )
                if math.isinf(interval) and math.exp(HOUR / (days * DAY)) > 20:
                    continue  # without checkpoints it would hardly ever end
                outcome = simulate(times, cluster, plan.seed)
                rows.append(
                    {
                        "days": days,
                        "checkpoint": None if math.isinf(interval) else interval,
                        "retries": retries,
                        "islands": islands,
                        "island_seconds": HOUR,
                        "efficiency": outcome.efficiency,
                        **asdict(outcome),
                    }
                )
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, write the record and the picture, print the tables.

    Returns:
        The exit code, 0.
    """
    parser = shared.make_parser("simulation", __doc__)
    parser.add_argument("--records", type=Path, default=shared.RECORDS, help="what was measured")
    parser.add_argument("--picture", type=Path, default=PICTURE, help="where the picture goes")
    options = shared.parse(parser, arguments)
    plan = QUICK if options.quick else Plan()
    constants = read_constants(options.records)
    record = {
        "benchmark": "simulation",
        "quick": options.quick,
        "seed": plan.seed,
        "days": plan.usual,
        "constants": constants,
        "driver_limit": [
            {"island_seconds": length, "workers": driver_limit(constants, length)}
            for length in sorted({*plan.lengths, constants["island_seconds"]})
        ],
        "grid": run_grid(constants, plan),
        "lengths": run_lengths(constants, plan),
        "failures": run_failures(constants, plan),
        "hardware": hardware_summary(),
        "versions": software_versions(),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    write_picture(draw_picture(build_figures(record)), options.picture)
    print(f"{simulation_table(record)}\n\n{failures_table(record)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
