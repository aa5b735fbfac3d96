"""`python -m benchmarks.on_paper`: what a run that nobody made would cost, and where it breaks.

A thousand million examples, a hundred million parameters, 100 islands of eight ranks: bytes,
messages and hours by formulas. **Nothing of that size was run.** The constants are those of the
committed records, measured on one machine of two cores; what it could not show (a network between
machines, a disk, memory, deaths, faster ranks) is assumed, and is an option. Writes
`records/on_paper.json` and the tables of docs/scaling.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from benchmarks import on_paper_costs as costs
from benchmarks import on_paper_tables as tables
from benchmarks import options as shared
from benchmarks import readme
from benchmarks.on_paper_costs import Run
from benchmarks.ranks import BATCH, PARTICLES

PAGE = Path(__file__).parents[1] / "docs" / "scaling.md"
# Smaller sizes that are shown beside those of the run.
PARAMETERS = (10**6, 10**7, 10**8)
EXAMPLES = (10**6, 10**7, 10**8, 10**9)


def read_constants(records: Path) -> dict[str, float]:
    """What was measured.

    Args:
        records: the folder of the records.

    Returns:
        `multiply`: seconds of a particle, an example and a parameter, in the evaluation of `ranks`
        with most work. `vector`: seconds of a particle and a parameter that a mini-batch takes
        besides, however few examples it has, with the largest network. `exchange` and `rate`:
        seconds of an exchange, and its bytes per second. `write`: seconds of a small state.
        `spread`: standard deviation of the logarithm of an island's time. `predict`: a prediction,
        in evaluations. `read`: bytes per second of mini-batches from a mapped file.

    Raises:
        SystemExit: a record is missing.
    """
    ranks, simulation, prediction, data = (
        _read(records, name) for name in ("ranks", "simulation", "prediction", "big_data")
    )
    most = max(ranks["rows"], key=lambda row: row["parameters"] * row["examples"])
    largest = max(ranks["rows"], key=lambda row: row["parameters"])
    each = most["evaluation"]["clock"]["one"] / PARTICLES
    multiply = each / (most["parameters"] * most["examples"])
    step = largest["batch"]["clock"]["one"] / PARTICLES / largest["parameters"]
    return {
        "multiply": multiply,
        "vector": max(0.0, step - BATCH * multiply),
        "exchange": ranks["constants"]["seconds"],
        "rate": ranks["constants"]["bytes_per_second"],
        # The simulation has these two from `scaling` and `checkpoint_overhead`.
        "write": simulation["constants"]["write"],
        "spread": simulation["constants"]["spread"],
        "predict": prediction["prediction"][0]["over_epoch"],
        # Both of its particles read all rows.
        "read": 2 * data["bytes"] / data["seconds_sampling"],
    }


def _read(records: Path, name: str) -> dict[str, Any]:
    file = records / f"{name}.json"
    if not file.exists():
        raise SystemExit(f"{file} is missing: python -m benchmarks.{name} makes it.")
    return json.loads(file.read_text("utf-8"))


def work_out(run: Run, constants: dict[str, float]) -> dict[str, Any]:
    """All tables, for the sizes of the run and smaller ones."""
    parameters = sorted({*(p for p in PARAMETERS if p < run.parameters), run.parameters})
    examples = sorted({*(n for n in EXAMPLES if n < run.examples), run.examples})
    networks = [replace(run, parameters=count) for count in parameters]
    sizes = [replace(run, examples=count) for count in examples]
    both = [replace(each, examples=count) for count in examples for each in networks]
    return {
        "run": asdict(run),
        "constants": constants,
        "memory": [costs.memory(each, constants) for each in networks],
        "messages": [costs.messages(each, kind) for each in networks for kind in costs.MESSAGES],
        "exchange_seconds": [
            costs.exchange_seconds(each, constants, kind)
            for each in networks
            for kind in costs.MESSAGES
        ],
        "data": [costs.data(each, constants) for each in sizes],
        "times": [costs.times(each, constants) for each in both],
        "accelerated": [costs.times(each, constants, run.accelerated) for each in both],
        "traffic": costs.island_traffic(run),
        "batches": costs.batches(run, constants),
        "limits": costs.limits(run, constants),
    }


TABLES: dict[str, readme.Table] = {
    f"paper {name}": ("on_paper", table)
    for name, table in {
        "constants": tables.constants_table,
        "memory": tables.memory_table,
        "messages": tables.messages_table,
        "data": tables.data_table,
        "hours": tables.hours_table,
        "batches": tables.batches_table,
        "limits": tables.limits_table,
    }.items()
}


def fill(text: str, records: Path) -> str:
    """Put the tables of the record into the page's text; see `benchmarks.readme`."""
    return readme.fill(text, records, TABLES)


def make_parser() -> argparse.ArgumentParser:
    """A parser with an option for each attribute of a run."""
    parser = shared.make_parser("on_paper", __doc__)
    parser.add_argument("--records", type=Path, default=shared.RECORDS, help="what was measured")
    for each in fields(Run):
        kind = type(each.default)
        words = f"{each.default:,}; see `Run`"
        # 1e9 is easier to read than its zeros.
        reader = float if kind is float else lambda text: int(float(text))
        parser.add_argument(f"--{each.name}", type=reader, default=each.default, help=words)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Work everything out, write the record, print the tables and fill the page.

    Returns:
        The exit code, 0.
    """
    parser = make_parser()
    options = shared.parse(parser, arguments)
    chosen = {each.name: getattr(options, each.name) for each in fields(Run)}
    for name, value in chosen.items():
        if not value > 0:
            parser.error(f"`{name}` must be positive, but got {value}.")
    found = work_out(Run(**chosen), read_constants(options.records))
    record = {"benchmark": "on_paper", "quick": options.quick, **found}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    print("\n\n".join(table(record) for _, table in TABLES.values()))
    if not options.quick and options.out == shared.RECORDS / "on_paper.json":
        PAGE.write_text(fill(PAGE.read_text("utf-8"), shared.RECORDS), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
