"""`python -m benchmarks.ranks`: an evaluation by several ranks beside one by one process.

One evaluation is the log likelihood and its gradient over all data, for ten particles. Each rank
has one thread, and so has the one process. They take turns, and a ratio is the median of those
within a turn. There are two ratios: by the clock, which on a busy machine, or with more ranks than
cores, says what the machine had left; and by the processor seconds of rank 0, which is what ranks
with a core each would gain, waiting apart. With two examples a rank there is next to nothing to
compute: what is left is the exchange, and its time by size gives what a message and a byte cost.
All ranks are on this machine, connected by gloo over its loopback device.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import sbmc
from benchmarks import options as shared
from benchmarks import readme
from benchmarks.tables import line
from sbmc.target.minibatch import MiniBatches
from sbmc.target.shards import ShardedEngine, Shards
from sbmc.target.shards.started import close_ranks
from sbmc.target.target import Target

PAGE = Path(__file__).parents[1] / "docs" / "ranks.md"
RANKS = (2, 4)
PARTICLES, BATCH = 10, 64
# The sums of ranks may differ by rounding alone.
ALLOWED = 1e-6


class Case(NamedTuple):
    """A network with one hidden layer, and how many examples it has."""

    inputs: int
    hidden: int
    examples: tuple[int, ...]

    @property
    def title(self) -> str:
        """The network in words."""
        return f"{self.inputs}-{self.hidden}-10"


CASES = (
    Case(20, 64, (2_000, 20_000, 200_000)),
    Case(784, 128, (1_000, 10_000)),
    Case(1_000, 1_000, (500,)),
)
QUICK = (Case(3, 4, (40,)),)


def measure(case: Case, examples: int, ranks: int, repeats: int) -> dict[str, Any]:
    """Times of one process and of so many ranks, in turns."""
    one, several = _targets(case, examples, ranks)
    positions = 0.1 * torch.randn(PARTICLES, one.dim)
    rows = min(BATCH, examples)
    index = torch.stack([torch.randperm(examples)[:rows] for _ in range(PARTICLES)])
    batches = {"one": MiniBatches(one), "ranks": MiniBatches(several)}
    whole: dict[str, Callable[[], Any]] = {
        "one": lambda: one(positions),
        "ranks": lambda: several(positions),
    }
    steps: dict[str, Callable[[], Any]] = {
        who: (lambda each=each: each(positions, index)) for who, each in batches.items()
    }
    expected, found = whole["one"](), whole["ranks"]()
    return {
        "network": case.title,
        "parameters": one.dim,
        "examples": examples,
        "ranks": ranks,
        "difference": _difference(expected.gradient, found.gradient),
        "evaluation": _in_turns(whole, repeats),
        "batch": _in_turns(steps, 3 * repeats),
    }


def exchange(case: Case, ranks: int, repeats: int) -> dict[str, Any]:
    """The time of an evaluation of two examples a rank: that of its messages."""
    _, several = _targets(case, 2 * ranks, ranks)
    positions = 0.1 * torch.randn(PARTICLES, several.dim)
    several(positions)
    seconds = [_timed(lambda: several(positions)).clock for _ in range(3 * repeats)]
    # Parameters out, in float32; gradients and log likelihoods back, in float64; to or from each.
    sent = (ranks - 1) * PARTICLES * (12 * several.dim + 8)
    return {"ranks": ranks, "bytes": sent, "seconds": statistics.median(seconds)}


def _targets(case: Case, examples: int, ranks: int) -> tuple[Target, Target]:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(case.inputs, case.hidden), nn.ReLU(), nn.Linear(case.hidden, 10)
    )
    data = torch.randn(examples, case.inputs), torch.randint(10, (examples,))
    one = sbmc.build_target(model, data)
    divided = sbmc.build_target(model, data)
    assert not isinstance(divided.engine, ShardedEngine)
    return one, Target(ShardedEngine(divided.engine, Shards(ranks, threads=1)), divided.prior)  # type: ignore[arg-type]


class Seconds(NamedTuple):
    """By the clock, and of this process's processor."""

    clock: float
    processor: float


def _in_turns(ways: dict[str, Callable[[], Any]], repeats: int) -> dict[str, dict[str, float]]:
    for way in ways.values():
        way()
    turns = [{who: _timed(way) for who, way in ways.items()} for _ in range(repeats)]
    return {
        by: {
            **{who: statistics.median(getattr(turn[who], by) for turn in turns) for who in ways},
            "ratio": statistics.median(
                getattr(turn["one"], by) / getattr(turn["ranks"], by) for turn in turns
            ),
        }
        for by in Seconds._fields
    }


def _timed(work: Callable[[], Any]) -> Seconds:
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return Seconds(time.perf_counter() - clock, time.process_time() - processor)


def _difference(expected: Tensor, found: Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max())


def constants(exchanges: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Seconds of an exchange without content, and bytes per second, from two ranks."""
    two = sorted((each for each in exchanges if each["ranks"] == 2), key=lambda each: each["bytes"])
    few, many = two[0], two[-1]
    further = max(many["seconds"] - few["seconds"], 1e-9)
    return {"seconds": few["seconds"], "bytes_per_second": (many["bytes"] - few["bytes"]) / further}


def ranks_table(record: dict[str, Any]) -> str:
    """A row for each network and size of the data."""
    headings = ["network", "parameters", "examples", "one process", "exchange, 2 ranks"]
    headings += [f"{ranks} ranks: processor (clock)" for ranks in RANKS]
    headings += [f"mini-batch of {BATCH}, {ranks} ranks" for ranks in RANKS]
    lines = [line(headings), line(["---"] + ["---:"] * (len(headings) - 1))]
    two = [each for each in record["exchanges"] if each["ranks"] == 2]
    exchanges = {each["parameters"]: each["seconds"] for each in two}
    for row in record["rows"]:
        if row["ranks"] != RANKS[0]:
            continue
        name = row["network"], row["examples"]
        same = [each for each in record["rows"] if (each["network"], each["examples"]) == name]
        cells = [row["network"], f"{row['parameters']:,}", f"{row['examples']:,}"]
        cells += [_milliseconds(row["evaluation"]["clock"]["one"])]
        cells += [_milliseconds(exchanges[row["parameters"]])]
        for what in ("evaluation", "batch"):
            for each in same:
                ratios = [each[what][by]["ratio"] for by in ("processor", "clock")]
                cells.append("{:.2f}× ({:.2f}×)".format(*ratios))
        lines.append(line(cells))
    return "\n".join(lines)


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:,.1f} ms"


def fill(text: str, records: Path) -> str:
    """Put the table of the record into the page's text; see `benchmarks.readme`."""
    return readme.fill(text, records, {"ranks": ("ranks", ranks_table)})


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and fill the page; 1 if the sums of ranks differ by more than rounding."""
    options = shared.parse(shared.make_parser("ranks", __doc__, repeats=7), arguments)
    torch.set_num_threads(1)
    cases = QUICK if options.quick else CASES
    rows, exchanges = [], []
    for ranks in RANKS:  # ranks of one number are started once
        for case in cases:
            print(f"{case.title}, {ranks} ranks", file=sys.stderr, flush=True)
            for examples in case.examples:
                rows.append(measure(case, examples, ranks, options.repeats))
            each = exchange(case, ranks, options.repeats)
            exchanges.append({"parameters": rows[-1]["parameters"], **each})
    close_ranks()
    measured = {"rows": rows, "exchanges": exchanges, "constants": constants(exchanges)}
    record = shared.write_record(options, "ranks", measured)
    print(ranks_table(record))
    print(record["constants"])
    if not options.quick and options.out == shared.RECORDS / "ranks.json":
        PAGE.write_text(fill(PAGE.read_text("utf-8"), shared.RECORDS), "utf-8")
    failures = [
        f"{row['network']}, {row['ranks']} ranks: gradients differ by {row['difference']:.1e}"
        for row in rows
        if row["difference"] > ALLOWED
    ]
    return shared.tell_failures(failures)


if __name__ == "__main__":
    sys.exit(main())
