"""`python -m benchmarks.ray_ranks`: islands of several ranks on Ray, and workers killed at random.

The same run is made three times: with the ranks of one machine and no executor, on a local Ray,
and on Ray while workers are killed, rank 0 or another, at random moments. The bits must be the
same, every island must be there once, and what a kill costs is what the killed island has to do
again. Two islands run at a time, of two ranks each; workers have one thread, and all of them are on
this machine.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

import sbmc
from benchmarks import options as shared
from benchmarks import readme
from benchmarks.tables import line

PAGE = Path(__file__).parents[1] / "docs" / "ranks.md"
RANKS, ISLANDS, PARTICLES = 2, 4, 10
EXAMPLES, INPUTS, HIDDEN, STEPS = 20_000, 20, 64, 30
# Seconds between snapshots, between two kills, and at most until islands are under way.
EVERY, PAUSE, PATIENCE = 1.0, (2.0, 5.0), 60.0
KILLS = 6
# How Ray calls processes that compute: rank 0 of an island, and its other ranks.
AT_WORK = ("ray::_task", "ray::serve_rank")


@dataclass
class Killer:
    """Kills workers of this process's Ray at random moments, so many of them."""

    rng: random.Random
    kills: int
    killed: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self, checkpoint: Path) -> None:
        """Begin when the first snapshot is there: workers have begun then."""
        end = time.monotonic() + PATIENCE
        while not any(checkpoint.glob("batch-*")) and time.monotonic() < end:
            if self.over.wait(0.05):
                return
        while len(self.killed) < self.kills:
            if self.over.wait(self.rng.uniform(*PAUSE)):
                return
            workers = [(pid, title) for pid, title in processes(os.getpid()) if title in AT_WORK]
            if workers:
                pid, title = self.rng.choice(workers)
                os.kill(pid, signal.SIGKILL)
                self.killed.append(title)


def processes(pid: int) -> list[tuple[int, str]]:
    """The processes below one, with the titles that they have given themselves."""
    found = []
    try:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, task.read_text().split()):
                title = Path(f"/proc/{child}/cmdline").read_text(errors="replace").split("\0")[0]
                found += [(child, title), *processes(child)]
    except OSError:  # it has ended in the meantime
        pass
    return found


def fit(steps: int, **compute: Any) -> tuple[sbmc.Posterior, float]:
    """The run, and its seconds."""
    rng = torch.Generator().manual_seed(0)
    inputs = torch.randn(EXAMPLES, INPUTS, generator=rng)
    targets = (inputs[:, 0] * inputs[:, 1] > 0).long()
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 2))
    began = time.perf_counter()
    posterior = sbmc.fit(
        network,
        (inputs, targets),
        s=0.1,
        sampler=sbmc.HMC(steps=steps, leapfrog=10, step_size=0.01),
        particles=PARTICLES,
        islands=ISLANDS,
        compute=sbmc.Compute(shards=sbmc.Shards(RANKS, threads=1), retries=20, **compute),
        progress=False,
    )
    return posterior, time.perf_counter() - began


def measure(steps: int, kills: int, seed: int) -> dict[str, Any]:
    """Three runs, and how they differ."""
    cluster = sbmc.Ray(workers=2, cpus=0.5)
    expected, here = fit(steps, executor=sbmc.InProcess(fold=1, threads=1))
    with tempfile.TemporaryDirectory() as folder:
        quiet = sbmc.CheckpointAt(Path(folder, "quiet"), every=EVERY)
        undisturbed, on_ray = fit(steps, executor=cluster, checkpoint=quiet)
        place = Path(folder, "killed")
        killer = Killer(random.Random(seed), kills)
        thread = threading.Thread(target=killer.run, args=(place,))
        thread.start()
        try:
            at = sbmc.CheckpointAt(place, every=EVERY)
            found, disturbed = fit(steps, executor=cluster, checkpoint=at)
        finally:
            killer.over.set()
            thread.join()
        results = sorted(path.name for path in place.glob("island-*"))
    return {
        "seed": seed,
        "islands": ISLANDS,
        "ranks": RANKS,
        "seconds": {"one machine": here, "Ray": on_ray, "Ray, killed": disturbed},
        "killed": {title: killer.killed.count(title) for title in AT_WORK},
        "attempts": [report.attempts for report in found.islands],
        "results": len(results),
        "outcomes": [report.outcome for report in found.islands],
        "same_bits": [
            torch.equal(each.positions, expected.positions) for each in (undisturbed, found)
        ],
    }


def ray_ranks_table(record: dict[str, Any]) -> str:
    """The three runs, and what the kills cost."""
    seconds = record["seconds"]
    killed = sum(record["killed"].values())
    lines = [line(["run", "seconds", "workers killed", "attempts of the islands", "same bits"])]
    lines.append(line(["---", "---:", "---:", "---", "---"]))
    same = ["yes" if each else "**no**" for each in record["same_bits"]]
    attempts = ", ".join(map(str, record["attempts"]))
    ones = ", ".join(["1"] * record["islands"])
    lines.append(
        line(
            [
                "ranks of one machine, one island at a time",
                f"{seconds['one machine']:.0f}",
                "0",
                ones,
                "–",
            ]
        )
    )
    lines.append(line(["Ray, two islands at a time", f"{seconds['Ray']:.0f}", "0", ones, same[0]]))
    lines.append(
        line(
            [
                "the same, with kills",
                f"{seconds['Ray, killed']:.0f}",
                str(killed),
                attempts,
                same[1],
            ]
        )
    )
    each = (seconds["Ray, killed"] - seconds["Ray"]) / max(1, killed)
    titles = record["killed"]
    lines += [
        "",
        f"Of the workers {titles[AT_WORK[0]]} were rank 0 of an island and {titles[AT_WORK[1]]} "
        f"another rank. A kill cost {each:.1f} seconds of the run on average; snapshots were "
        f"{EVERY:g} second apart.",
    ]
    return "\n".join(lines)


def fill(text: str, records: Path) -> str:
    """Put the table of the record into the page's text; see `benchmarks.readme`."""
    return readme.fill(text, records, {"ray_ranks": ("ray_ranks", ray_ranks_table)})


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and fill the page; 1 if an island is lost, run twice, or has other bits."""
    parser = shared.make_parser("ray_ranks", __doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the moments and of who is killed")
    options = shared.parse(parser, arguments)
    torch.set_num_threads(1)
    measured = measure(6 if options.quick else STEPS, 1 if options.quick else KILLS, options.seed)
    record = shared.write_record(options, "ray_ranks", measured)
    print(ray_ranks_table(record))
    if not options.quick and options.out == shared.RECORDS / "ray_ranks.json":
        PAGE.write_text(fill(PAGE.read_text("utf-8"), shared.RECORDS), "utf-8")
    failures = []
    if not all(record["same_bits"]):
        failures.append("the bits are not those of ranks of one machine")
    if set(record["outcomes"]) != {"completed"} or record["results"] != ISLANDS:
        failures.append(f"{record['results']} results of {ISLANDS} islands: {record['outcomes']}")
    if not options.quick and sum(record["killed"].values()) < KILLS:
        failures.append(f"fewer than {KILLS} workers were killed")
    return shared.tell_failures(failures)


if __name__ == "__main__":
    sys.exit(main())
