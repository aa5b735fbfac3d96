"""`python -m benchmarks.minibatch`: epochs in mini-batches, beside full-batch epochs and peers.

Batches of 50. SGHMC is timed beside HMC of sbmc on all data, whose epoch is what an epoch in
mini-batches is measured by, and beside posteriors. An ensemble of ten is timed beside a loop of
plain PyTorch trainings. The contest is that of `benchmarks.speed`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.goals import Goal
from benchmarks.speed import Plan, Row
from benchmarks.speed import main as run_plan

ROWS = (
    Row("mnist7", 10, "sghmc", leapfrog=1),
    Row("mlp", 10, "sghmc", transitions=20),
    Row("mlp", 100, "sghmc", transitions=4),
    Row("mnist7", 10, "ensemble", serial_particles=1),
    Row("mlp", 10, "ensemble", serial_particles=1),
)
QUICK_ROWS = (Row("mlp", 3, "sghmc", transitions=2), Row("mnist7", 3, "ensemble"))
# An epoch in mini-batches may take so many times as long as one on all data.
GOALS = (
    Goal("mnist7", 10, "full", 1 / 1.6, 1 / 1.3, "sghmc"),
    Goal("mlp", 10, "full", 1 / 3, 1 / 2, "sghmc"),
    Goal("mlp", 100, "full", 1 / 2, 1 / 1.5, "sghmc"),
    Goal("mnist7", 10, "posteriors", 8, 10, "sghmc"),
    Goal("mlp", 10, "posteriors", 6, 10, "sghmc"),
    Goal("mnist7", 10, "trainings", 5, 10, "ensemble"),
    Goal("mlp", 10, "trainings", 5, 10, "ensemble"),
)
PLAN = Plan("minibatch", ROWS, QUICK_ROWS, GOALS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the record, print the tables and the verdict; see `benchmarks.speed.main`."""
    return run_plan(arguments, PLAN)


if __name__ == "__main__":
    sys.exit(main())
