"""The options that all benchmarks share, and the writing of their records."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from sbmc.storage.provenance import hardware_summary, software_versions

RECORDS = Path(__file__).parent / "records"


def make_parser(
    name: str, description: str | None, *, repeats: int | None = None
) -> argparse.ArgumentParser:
    """A parser with the shared options.

    Args:
        name: of the benchmark: of its module and of its record.
        description: for `--help`.
        repeats: the number of repetitions, if it is not the plan's affair.

    Returns:
        The parser, for further options; `parse` checks what it finds.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=description)
    parser.add_argument("--threads", type=int, help="torch's threads; its own choice if not given")
    parser.add_argument("--repeats", type=int, default=repeats, help="repetitions of each timing")
    out = RECORDS / f"{name}.json"
    parser.add_argument("--out", type=Path, default=out, help="where the record goes")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, no verdict: for tests")
    return parser


def parse(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None = None
) -> argparse.Namespace:
    """Parse, refuse numbers that are not positive, and set torch's threads."""
    options = parser.parse_args(arguments)
    for name in ("threads", "repeats"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"`{name}` must be a positive integer, but got {value}.")
    if options.threads:
        torch.set_num_threads(options.threads)
    options.load = os.getloadavg()[0]  # before the benchmark adds to it
    return options


def write_record(
    options: argparse.Namespace, benchmark: str, measured: dict[str, Any]
) -> dict[str, Any]:
    """Add what every record says of its circumstances, and write it.

    Returns:
        The record.
    """
    record = {
        "benchmark": benchmark,
        "quick": options.quick,
        "threads": torch.get_num_threads(),
        **measured,
        "load": options.load,
        "hardware": hardware_summary(),
        "versions": software_versions(),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    return record


def tell_failures(failures: Sequence[str]) -> int:
    """Print them; the exit code."""
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0
