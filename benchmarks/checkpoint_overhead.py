"""`python -m benchmarks.checkpoint_overhead`: what writing checkpoints costs.

The run of `benchmarks.scaling` in this process, island by island, without a checkpoint and with one
that is written at several intervals. They take turns. Two answers: the seconds that were spent on
making and writing states and results, as a part of the run; and the wall time beside that of the
run without a checkpoint, which also has what cannot be attributed, and the noise of the machine.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import options as shared
from benchmarks.scaling import QUICK, Plan, run_islands
from benchmarks.scaling_tables import checkpoint_table
from sbmc import CheckpointAt, InProcess
from sbmc.islands.checkpoints.options import EVERY

# The most that a checkpoint at the usual interval may cost, as a part of the run.
ALLOWED = 0.02


def measure(plan: Plan, folder: Path, quick: bool) -> list[dict[str, Any]]:
    """A row for each interval; the first run, without a checkpoint, decides on one of them."""
    executor = InProcess(fold=1, threads=1)
    first, _ = run_islands(plan, executor, quick)
    intervals: dict[str, float | None] = {
        "none": None,
        "default": EVERY,
        "a tenth of an island": first.sampling / plan.islands / 10,
        "every place": 0.0,  # every snapshot; records have this name
    }
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in intervals}
    for turn in range(plan.repeats):
        for name, every in intervals.items():
            print(f"{name}: run {turn + 1}", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(dir=folder) as path:
                location = None if every is None else CheckpointAt(path, every=every)
                seen, _ = run_islands(plan, executor, quick, checkpoint=location)
            checkpointers = [
                checkpointer for checkpointer in seen.checkpointers if checkpointer.written
            ]
            runs[name].append(
                {
                    "seconds": seen.ended - seen.opened,
                    "states": sum(checkpointer.written for checkpointer in checkpointers),
                    "state_seconds": sum(checkpointer.seconds for checkpointer in checkpointers),
                    "results": plan.islands if checkpointers else 0,
                    "result_seconds": seen.keep_seconds,
                }
            )
    return [_row(name, intervals[name], runs) for name in intervals]


def _row(name: str, every: float | None, runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    def middle(key: str) -> float:
        return statistics.median(run[key] for run in runs[name])

    writing = [run["state_seconds"] + run["result_seconds"] for run in runs[name]]
    pairs = list(zip(runs[name], runs["none"], strict=True))
    return {
        "interval": name,
        "every": every,
        "seconds": middle("seconds"),
        "over_none": statistics.median(run["seconds"] / bare["seconds"] for run, bare in pairs),
        "states": middle("states"),
        "seconds_per_state": middle("state_seconds") / middle("states") if every is not None else 0,
        "writing": statistics.median(
            spent / run["seconds"] for spent, run in zip(writing, runs[name], strict=True)
        ),
        "runs": runs[name],
    }


def find_failures(record: dict[str, Any]) -> list[str]:
    """Where writing at the usual interval takes more than it may."""
    spent = {
        "writing took": record["default_writing"],
        f"a state every {EVERY:g} s would take": record["state_per_default_interval"],
    }
    return [
        f"{words} {value:.1%} of the run, {record['allowed']:.0%} allowed"
        for words, value in spent.items()
        if value >= record["allowed"]
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the record, print the table.

    Returns:
        The exit code: 1 if checkpoints cost too much; always 0 with `--quick`.
    """
    parser = shared.make_parser("checkpoint_overhead", __doc__)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    options = shared.parse(parser, arguments)
    plan = QUICK if options.quick else replace(Plan(), repeats=3)
    if options.repeats:
        plan = replace(plan, repeats=options.repeats)
    rows = {row["interval"]: row for row in measure(plan, options.folder, options.quick)}
    measured: dict[str, Any] = {
        "threads": 1,
        "repeats": plan.repeats,
        "islands": plan.islands,
        "allowed": ALLOWED,
        "default_writing": rows["default"]["writing"],
        "state_per_default_interval": rows["every place"]["seconds_per_state"] / EVERY,
        "rows": list(rows.values()),
    }
    measured["failures"] = [] if options.quick else find_failures(measured)
    record = shared.write_record(options, "checkpoint_overhead", measured)
    print(checkpoint_table(record))
    return shared.tell_failures(record["failures"])


if __name__ == "__main__":
    sys.exit(main())
