"""`python -m benchmarks.speed`: sbmc against its peers, and against the machine.

Seconds per epoch and particle (one gradient over all examples for one particle) inside a running
sampler. Every contender is a process of its own that first has to compute the same log posterior;
they take turns, one at a time. `--peers` names the Python of the environment that has the peers.
Without it only sbmc and plain PyTorch run; then, and with `--only`, there is no verdict, and the
record goes to runs/. With `--only ... --update` these rows go into the committed record, beside the
others, if that is of the same kind of machine.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import options as shared
from benchmarks.contest import OURS, Entry, run_contest
from benchmarks.goals import (
    GOALS,
    Goal,
    committed_record,
    comparable,
    find_fallen,
    find_missed,
    with_rows,
)
from benchmarks.machine import Machine
from benchmarks.peers.protocol import Task
from benchmarks.speed_tables import goals_table, speed_table
from benchmarks.transformer import Transformer
from benchmarks.workloads import HEADS, PRIOR_VARIANCE, get_workload, make_examples, prior_of
from sbmc.model.parameters import select_parameters
from sbmc.storage.provenance import hardware_summary, software_versions

PROBES = 3
# Names of the peers for each algorithm, and their modules; `plain` needs no environment of its own.
PEERS = {
    "hmc": {
        "plain": "plain_torch",
        "pyro": "pyro_hmc",
        "blackjax": "blackjax_hmc",
        "numpyro": "numpyro_hmc",
        "patches": "blackjax_patches",
    },
    "smc": {"blackjax": "blackjax_smc"},
    "sghmc": {"full": "ours_full", "posteriors": "posteriors_sghmc"},
    "ensemble": {"trainings": "plain_training"},
}
# Those that run in the environment of sbmc.
AT_HOME = ("plain", "full", "trainings")


# A transition of XLA's strided convolutions, inside the loop of a sampler, takes minutes: there
# BlackJAX runs with patches alone. Problems without convolutions need none.
LEFT_OUT = {
    "blackjax": ("strided",),
    "numpyro": ("strided",),
    "patches": ("head", "cifar", "mlp", "regression", "transformer"),
}


@dataclass(frozen=True)
class Row:
    """What is timed; the same for all contenders.

    Attributes:
        workload: its name.
        particles: how many.
        algorithm: `hmc`, `smc`, `sghmc` or `ensemble`.
        leapfrog: steps of a transition, few where they take long.
        transitions: in a unit of work, many where they take no time.
        serial_particles: how many are timed where one chain follows another: their time per
            particle does not depend on how many there are.
    """

    workload: str
    particles: int
    algorithm: str = "hmc"
    leapfrog: int = 5
    transitions: int = 1
    serial_particles: int = 2


ROWS = (
    # Single leapfrog steps, as in the paper: XLA's loops over more would not be at their best.
    Row("mnist7", 10, leapfrog=1),
    Row("mnist7", 80, leapfrog=1),
    Row("strided", 10, leapfrog=1),
    Row("head", 10),
    Row("head", 80),
    Row("cifar", 10, leapfrog=2),
    Row("cifar", 40, leapfrog=2),
    Row("mlp", 10, transitions=20, serial_particles=10),
    Row("mlp", 1_000, transitions=2, serial_particles=10),
    Row("regression", 10, transitions=20, serial_particles=10),
    Row("regression", 100, transitions=4, serial_particles=10),
    Row("transformer", 10, leapfrog=2),
    Row("mnist7", 10, "smc", leapfrog=1),
    Row("head", 80, "smc", leapfrog=1),
)
QUICK_ROWS = (
    *(Row(name, 3, leapfrog=1) for name in ("mnist7", "strided")),
    *(Row(name, 3, transitions=2) for name in ("head", "mlp", "regression", "transformer")),
    Row("mnist7", 3, "smc", leapfrog=1),
)


@dataclass(frozen=True)
class Plan:
    """A benchmark of this kind: what is measured, and what it has to reach.

    Attributes:
        name: of the benchmark's module and record.
        rows: what is timed.
        quick_rows: the same for tests.
        goals: figures of the rows.
    """

    name: str
    rows: Sequence[Row]
    quick_rows: Sequence[Row]
    goals: Sequence[Goal]


SPEED = Plan("speed", ROWS, QUICK_ROWS, GOALS)
# Small enough that nothing leaves the ground, whatever the model: time does not depend on it.
STEP_SIZE = 1e-4


def make_task(row: Row, threads: int, quick: bool) -> Task:
    """Data, parameters and settings of a row, always the same ones."""
    workload = get_workload(row.workload, quick)
    torch.manual_seed(0)
    network = workload.network()
    examples = make_examples(workload, workload.examples)
    prior, rng = prior_of(network), torch.Generator().manual_seed(1)
    arrays: dict[str, Any] = {
        "inputs": examples.inputs,
        "labels": examples.targets,
        "mean": prior.mean,
        "start": prior.sample(row.particles, rng),
        "probe": prior.sample(PROBES, rng),
    }
    if isinstance(network, Transformer):
        arrays |= {f"frozen.{name}": tensor for name, tensor in network.frozen().items()}
    return Task(
        kind=workload.kind,
        shapes=[list(shape) for shape in select_parameters(network).shapes],
        scale=PRIOR_VARIANCE**0.5,
        algorithm=row.algorithm,
        particles=row.particles,
        serial_particles=min(row.serial_particles, row.particles),
        leapfrog=row.leapfrog,
        transitions=row.transitions,
        step_size=STEP_SIZE,
        temperatures=2,
        mutations=5,
        batch_size=50,
        threads=threads,
        heads=HEADS,
        likelihood=workload.likelihood,
        arrays={name: np.ascontiguousarray(tensor) for name, tensor in arrays.items()},
    )


def entries_of(row: Row, peers_python: str | None) -> list[Entry]:
    """Who takes part: sbmc first, then the peers that there is a Python for."""
    entries = [Entry(OURS, sys.executable, "benchmarks.peers.ours")]
    for name, module in PEERS[row.algorithm].items():
        python = sys.executable if name in AT_HOME else peers_python
        if python is not None and row.workload not in LEFT_OUT.get(name, ()):
            entries.append(Entry(name, python, f"benchmarks.peers.{module}"))
    return entries


def measure_row(
    row: Row, *, threads: int, repeats: int, quick: bool, peers_python: str | None
) -> dict[str, Any]:
    """Run the contest of a row, and say what came of it.

    Returns:
        The row of the record: `contenders` by name, `ratios` (how many times as long a peer takes
        as sbmc, the median over the turns) and `roofline` (the least time that the machine needs
        over the time that sbmc took, likewise).
    """
    workload = get_workload(row.workload, quick)
    found, rates = run_contest(
        make_task(row, threads, quick),
        entries_of(row, peers_python),
        repeats=repeats,
        machine=Machine(quick),
    )
    ours = found[OURS].get("all_seconds", [])
    ratios = {
        name: statistics.median(t / u for t, u in zip(result["all_seconds"], ours, strict=False))
        for name, result in found.items()
        if name != OURS and "error" not in result and ours
    }
    operations = workload.operations(workload.examples, row.particles)
    # Batches are read in another order for each particle: the count is for whole evaluations.
    counted = ours and row.algorithm not in ("sghmc", "ensemble")
    least = [operations.seconds(**rate) / row.particles for rate in rates]
    return {
        **vars(row),
        "title": workload.title,
        "examples": workload.examples,
        "contenders": found,
        "ratios": ratios,
        "operations": operations._asdict(),
        "rates": {name: statistics.median(rate[name] for rate in rates) for name in rates[0]},
        "least_seconds": statistics.median(least),
        "roofline": statistics.median(x / y for x, y in zip(least, ours, strict=True))
        if counted
        else None,
    }


def main(arguments: Sequence[str] | None = None, plan: Plan = SPEED) -> int:
    """Measure, write the record, print the tables and the verdict.

    Args:
        arguments: of the command line.
        plan: what is measured.

    Returns:
        The exit code: 1 if a contender failed, a required figure is missed, or a ratio has fallen
        by more than a fifth since the last committed record. Without peers, with `--only` or with
        `--quick` there is no verdict.
    """
    parser = shared.make_parser(plan.name, __doc__, repeats=5)
    parser.add_argument("--peers", help="the Python that has the peers")
    parser.add_argument("--only", nargs="+", metavar="WORKLOAD", help="leave the others out")
    parser.add_argument(
        "--update",
        action="store_true",
        help="with --only and --peers: put the rows into the record",
    )
    options = shared.parse(parser, arguments)
    if options.update and (options.quick or not options.only or not options.peers):
        parser.error("`update` must be used with --only and --peers, and without --quick.")
    if options.peers is not None and not Path(options.peers).exists():
        parser.error(f"`peers` must be the path of a Python, but got {options.peers!r}.")
    rows = [
        row
        for row in (plan.quick_rows if options.quick else plan.rows)
        if not options.only or row.workload in options.only
    ]
    if not rows:
        names = sorted({row.workload for row in plan.rows})
        parser.error(f"`only` must be among {', '.join(names)}, but got {options.only}.")
    # Not resolved: a virtual environment's Python is a link to another one.
    peers_python = options.peers and str(Path(options.peers).absolute())
    usual = shared.RECORDS / f"{plan.name}.json"
    before = committed_record(usual)
    measured = []
    for row in rows:
        print(f"{row.workload}, {row.algorithm}, {row.particles}", file=sys.stderr, flush=True)
        found = measure_row(
            row,
            threads=torch.get_num_threads(),
            repeats=options.repeats,
            quick=options.quick,
            peers_python=peers_python,
        )
        ratios = ", ".join(f"{name} {ratio:.3g}×" for name, ratio in found["ratios"].items())
        share = "" if found["roofline"] is None else f"; roofline {found['roofline']:.0%}"
        print(f"  {ratios}{share}", file=sys.stderr, flush=True)
        measured.append(found)
    if options.update:
        return update_record(plan, options, measured)
    judged = peers_python is not None and not options.quick and not options.only
    if not judged and options.out == usual:
        options.out = shared.RECORDS.parents[1] / "runs" / usual.name  # no record to compare with
    record = shared.write_record(
        options, plan.name, {"repeats": options.repeats, "judged": judged, "rows": measured}
    )
    print(speed_table(record))
    if not judged:
        return 0
    print(f"\n{goals_table(record, plan.goals)}")
    if before is not None and not comparable(record, before):
        print("\nThe last committed record is of another machine: ratios are not held against it.")
    missed = find_missed(record, plan.goals)
    return shared.tell_failures([*_failed(measured), *missed, *find_fallen(record, before)])


def update_record(plan: Plan, options: Any, measured: Sequence[dict[str, Any]]) -> int:
    """Put rows that were measured apart into the record, each with its own circumstances.

    Args:
        plan: whose record it is.
        options: of the command line; `out` is the record.
        measured: the rows.

    Returns:
        The exit code: 1 if a contender failed, or one of these rows misses a required figure.

    Raises:
        SystemExit: there is no record, or it is of another kind of machine.
    """
    record = json.loads(options.out.read_text("utf-8")) if options.out.is_file() else None
    now = {"quick": False, "threads": torch.get_num_threads(), "hardware": hardware_summary()}
    if record is None or not comparable(now, record):
        raise SystemExit(f"{options.out} is no record of this kind of machine: measure all rows.")
    apart = {"load": options.load, "repeats": options.repeats, "versions": software_versions()}
    record["rows"] = with_rows(record["rows"], [{**row, "apart": apart} for row in measured])
    options.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    goals = [goal for goal in plan.goals if goal.workload in options.only]
    print(f"{speed_table(record)}\n\n{goals_table(record, goals)}")
    return shared.tell_failures([*_failed(measured), *find_missed(record, goals)])


def _failed(measured: Sequence[dict[str, Any]]) -> list[str]:
    """Contenders that failed, in words."""
    return [
        f"{row['title']}, {row['algorithm']}: {name}: {result['error']}"
        for row in measured
        for name, result in row["contenders"].items()
        if "error" in result
    ]


if __name__ == "__main__":
    sys.exit(main())
