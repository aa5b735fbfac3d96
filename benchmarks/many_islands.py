"""`python -m benchmarks.many_islands`: what an island costs beside its computing.

A thousand tiny islands go through every executor. Overhead per island = (seconds ×
workers − computing in this process) / islands, without the starting of workers. Computing is that
of the same islands one by one in this process. The driver's own seconds per island (CPU time of its
process) bound how many islands it can hand out in a second, however many workers there are. They
are measured with Ray, and for the part of `sbmc.islands.scheduler` also with islands that take no
time at all, many of which are under way and tell of their progress.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from benchmarks import options as shared
from benchmarks.scaling_tables import many_table
from benchmarks.watching import Seen, Watched
from sbmc import HMC, Compute, InProcess, Processes, Ray, fit
from sbmc.islands.executors import Done, Executor, ProgressCallback, Session
from sbmc.islands.island import Island
from sbmc.islands.job import Batch, Job
from sbmc.islands.scheduler import run_batches

WORKERS = 2
HERE = "in process, one by one"


@dataclass(frozen=True)
class Plan:
    """What is measured.

    Attributes:
        islands: how many.
        particles: of each island.
        steps: of HMC with one leapfrog step each.
        repeats: turns.
        crowds: numbers of islands under way.
    """

    islands: int = 1_000
    particles: int = 5
    steps: int = 10
    repeats: int = 3
    crowds: tuple[int, ...] = (10, 100, 1_000)


QUICK = Plan(islands=6, steps=2, repeats=1, crowds=(2, 4))


def run_islands(plan: Plan, executor: Executor, window: int | None) -> tuple[Seen, torch.Tensor]:
    """Run all islands of the toy target.

    Returns:
        What was seen, and the positions.
    """
    torch.manual_seed(0)
    x = torch.randn(40, 2)
    network = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
    seen = Seen()
    posterior = fit(
        network,
        (x, (x[:, 0] * x[:, 1] > 0).long()),
        sampler=HMC(steps=plan.steps, leapfrog=1, step_size=0.05, adapt=False),
        particles=plan.particles,
        islands=plan.islands,
        compute=Compute(executor=Watched(executor, seen, window), throw=True),
        progress=False,
    )
    return seen, posterior.positions


def measure(plan: Plan, with_ray: bool) -> list[dict[str, Any]]:
    """A row for each way.

    Raises:
        RuntimeError: an island came out with other bits than in this process.
    """
    ways: dict[str, tuple[Executor, int | None]] = {
        HERE: (InProcess(fold=1, threads=1), None),
        "processes": (Processes(workers=WORKERS, threads=1), None),
    }
    if with_ray:
        ways["Ray"] = (Ray(workers=WORKERS), None)
        ways["Ray, all islands handed over at once"] = (Ray(workers=WORKERS), plan.islands)
    runs: dict[str, list[Seen]] = {name: [] for name in ways}
    reference = None
    for turn in range(plan.repeats):
        for name, (executor, window) in ways.items():
            print(f"{name}: run {turn + 1}", file=sys.stderr, flush=True)
            seen, positions = run_islands(plan, executor, window)
            reference = positions if reference is None else reference
            if not torch.equal(positions, reference):
                raise RuntimeError(f"{name}: islands differ from those in this process")
            runs[name].append(seen)
    computing = statistics.median(seen.sampling for seen in runs[HERE])
    return [_row(name, *ways[name], plan, runs[name], computing) for name in ways]


def _row(
    name: str,
    executor: Executor,
    window: int | None,
    plan: Plan,
    runs: list[Seen],
    computing: float,
) -> dict[str, Any]:
    workers = executor.workers or 1
    timings = [run.timing() for run in runs]
    seconds = statistics.median(timing["seconds"] for timing in timings)
    cpu = statistics.median(timing["driver_cpu_seconds"] for timing in timings)
    return {
        "way": name,
        "workers": workers,
        "under_way": window or workers,
        "seconds": seconds,
        "start_up_seconds": statistics.median(timing["start_up_seconds"] for timing in timings),
        "overhead_per_island": (seconds * workers - computing) / plan.islands,
        # In this process the driver's seconds are those of the islands.
        "driver_per_island": None if name == HERE else cpu / plan.islands,
        "runs": timings,
        "payload_bytes": runs[0].payload_bytes,
    }


def measure_driver(plan: Plan) -> list[dict[str, Any]]:
    """What `islands.running` takes for an island, and for its news, by how many are under way."""
    job = _job(plan)
    (island,) = job.run((0,))
    rows = []
    for crowd in plan.crowds:
        idle = [Idle(crowd, island) for _ in range(plan.repeats)]
        for each in idle:
            # As many again, so that places are taken by others.
            batches = [(index,) for index in range(2 * crowd)]
            run_batches(job, batches, executor=each, progress=False)
        rows.append(
            {
                "under_way": crowd,
                "seconds_per_island": min(each.handling for each in idle) / crowd,
                "seconds_per_news": min(each.hearing for each in idle) / crowd,
            }
        )
    return rows


def _job(plan: Plan) -> Job:
    """The work that `fit` would give to an executor."""
    kept: list[Job] = []

    class Keep(InProcess):
        def open(
            self, job: Job, checkpoint_files: Any, report_progress: ProgressCallback
        ) -> Session:
            kept.append(job)
            return super().open(job, checkpoint_files, report_progress)

    run_islands(replace(plan, islands=1), Keep(fold=1, threads=1), None)
    return kept[0]


class Idle(Executor):
    """Islands that are done before they begin; they tell of their progress once.

    Args:
        crowd: how many are under way.
        island: what all of them come to.

    Attributes:
        hearing: CPU seconds that the driver took to hear of all that were under way.
        handling: and to take back as many, and hand out others.
    """

    def __init__(self, crowd: int, island: Island) -> None:
        self._crowd, self._island = crowd, island
        self.hearing = self.handling = 0.0

    def open(self, job: Job, checkpoint_files: Any, report_progress: ProgressCallback) -> Session:
        """A session without workers."""
        return _IdleSession(self, self._crowd, self._island, report_progress)


class _IdleSession(Session):
    def __init__(
        self, notes: Idle, crowd: int, island: Island, report_progress: ProgressCallback
    ) -> None:
        self.window = crowd
        self._notes, self._island, self._report_progress = notes, island, report_progress
        self._under_way: deque[Batch] = deque()
        self._back = 0
        self._began = 0.0

    def submit(self, batch: Batch) -> None:
        self._under_way.append(batch)

    def wait(self, timeout: float) -> list[Done]:
        if self._back == 0:
            news = {"done": 1, "through": 0, "epochs": 1.0, "acceptance": 0.5}
            began = time.process_time()
            for batch in self._under_way:
                self._report_progress(batch, dict(news))
            self._began = time.process_time()
            self._notes.hearing = self._began - began
        elif self._back == self.window:
            self._notes.handling = time.process_time() - self._began
        self._back += 1
        batch = self._under_way.popleft()
        report = replace(self._island.report, index=batch[0])
        return [Done(batch, [replace(self._island, report=report)])]

    def stop(self) -> None:
        pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the record, print the table.

    Returns:
        The exit code, 0: nothing is required here.
    """
    parser = shared.make_parser("many_islands", __doc__)
    parser.add_argument("--without-ray", action="store_true", help="leave Ray out")
    options = shared.parse(parser, arguments)
    plan = QUICK if options.quick else Plan()
    if options.repeats:
        plan = replace(plan, repeats=options.repeats)
    measured: dict[str, Any] = {
        "threads": 1,
        "repeats": plan.repeats,
        "islands": plan.islands,
        "particles": plan.particles,
        "epochs": plan.steps + 1,
        "rows": measure(plan, not options.without_ray),
        "driver": measure_driver(plan),
        "failures": [],
    }
    record = shared.write_record(options, "many_islands", measured)
    print(many_table(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
