"""`python -m benchmarks.scaling`: the same islands on one worker and on two.

Strong scaling: P = 8 islands of the MNIST7 network with a fixed number of HMC steps, on one worker
of one thread and on two. They take turns, and medians count. Starting the workers is timed apart.
For comparison, once each: all islands folded into one batch in this process with all cores, and
Ray with two workers.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from benchmarks import options as shared
from benchmarks.scaling_tables import scaling_table
from benchmarks.watching import Seen, Watched
from benchmarks.workloads import PRIOR_VARIANCE, get_workload, make_examples
from sbmc import HMC, Compute, InProcess, Processes, Ray, fit
from sbmc.islands.executors import Executor

# How many times faster two workers have to be.
NEEDED = 1.6
ONE, TWO = "processes, 1 worker", "processes, 2 workers"
FOLDED, RAY = "in process, folded", "Ray, 2 workers"


@dataclass(frozen=True)
class Plan:
    """What is measured.

    Attributes:
        islands: how many.
        particles: of each island.
        steps: of HMC with one leapfrog step each.
        repeats: turns of the two.
    """

    islands: int = 8
    particles: int = 10
    steps: int = 27
    repeats: int = 5


QUICK = Plan(islands=3, particles=2, steps=2, repeats=1)


def run_islands(
    plan: Plan, executor: Executor, quick: bool, checkpoint: Any = None
) -> tuple[Seen, torch.Tensor]:
    """Run all islands through `sbmc.fit`.

    Args:
        plan: how many, of what size.
        executor: who runs them.
        quick: tiny data.
        checkpoint: where they are written down, if anywhere.

    Returns:
        What was seen, and the positions `(islands, particles, dim)`.
    """
    workload = get_workload("mnist7", quick)
    examples = make_examples(workload, workload.examples)
    torch.manual_seed(0)  # the network's parameters are the anchor
    seen = Seen()
    posterior = fit(
        workload.network(),
        (examples.inputs, examples.targets),
        prior_variance=PRIOR_VARIANCE,
        # A step size that is neither searched for nor adapted: every island makes the same steps.
        sampler=HMC(steps=plan.steps, leapfrog=1, step_size=0.01, adapt=False),
        particles=plan.particles,
        islands=plan.islands,
        compute=Compute(executor=Watched(executor, seen), checkpoint=checkpoint, throw=True),
        progress=False,
    )
    return seen, posterior.positions


def measure(plan: Plan, quick: bool, others: dict[str, Executor]) -> list[dict[str, Any]]:
    """A row for each way.

    Raises:
        RuntimeError: an island came out with other bits than on one worker.
    """
    ways: dict[str, Executor] = {
        ONE: Processes(workers=1, threads=1),
        TWO: Processes(workers=2, threads=1),
    }
    seen: dict[str, list[Seen]] = {name: [] for name in [*ways, *others]}
    reference = None
    for turn in range(plan.repeats):
        for name, executor in {**ways, **(others if turn == 0 else {})}.items():
            print(f"{name}: run {turn + 1}", file=sys.stderr, flush=True)
            found, positions = run_islands(plan, executor, quick)
            seen[name].append(found)
            reference = positions if reference is None else reference
            if not executor.folds and not torch.equal(positions, reference):
                raise RuntimeError(f"{name}: islands differ from those of one worker")
    return [_row(name, {**ways, **others}[name], plan, runs) for name, runs in seen.items()]


def _row(name: str, executor: Executor, plan: Plan, runs: list[Seen]) -> dict[str, Any]:
    timings = [run.timing() for run in runs]
    each = [seconds for run in runs for seconds in run.batch_seconds]
    return {
        "way": name,
        "workers": executor.workers,
        "threads": executor.threads_each,
        "islands": plan.islands,
        "particles": plan.particles,
        "epochs": plan.steps + 1,
        "seconds": statistics.median(timing["seconds"] for timing in timings),
        "with_start_up": statistics.median(
            timing["seconds"] + timing["start_up_seconds"] for timing in timings
        ),
        "start_up_seconds": statistics.median(timing["start_up_seconds"] for timing in timings),
        "runs": timings,
        "batch_seconds": each,
        "payload_bytes": runs[0].payload_bytes,
        "result_bytes": runs[0].result_bytes // plan.islands,
    }


def find_failures(record: dict[str, Any]) -> list[str]:
    """Whether two workers gain less than they have to."""
    gain = record["two_over_one"]["sampling"]
    if gain >= record["needed"]:
        return []
    words = f"two workers are {gain:.2f} times as fast as one"
    return [f"{words}, {record['needed']:g} needed"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the record, print the table.

    Returns:
        The exit code: 1 if two workers gain too little; always 0 with `--quick`.
    """
    parser = shared.make_parser("scaling", __doc__)
    parser.add_argument("--without-ray", action="store_true", help="leave Ray out")
    options = shared.parse(parser, arguments)
    plan = QUICK if options.quick else Plan()
    if options.repeats:
        plan = replace(plan, repeats=options.repeats)
    others: dict[str, Executor] = {FOLDED: InProcess(fold=plan.islands * plan.particles)}
    if not options.without_ray:
        others[RAY] = Ray(workers=2)
    rows = measure(plan, options.quick, others)
    one, two = (next(row for row in rows if row["way"] == name) for name in (ONE, TWO))
    measured: dict[str, Any] = {
        "threads": 1,
        "repeats": plan.repeats,
        "needed": NEEDED,
        "two_over_one": {
            "sampling": one["seconds"] / two["seconds"],
            "with_start_up": one["with_start_up"] / two["with_start_up"],
        },
        "rows": rows,
    }
    measured["failures"] = [] if options.quick else find_failures(measured)
    record = shared.write_record(options, "scaling", measured)
    print(scaling_table(record))
    return shared.tell_failures(record["failures"])


if __name__ == "__main__":
    sys.exit(main())
