"""`python -m benchmarks.scaling_page`: put the newest records into docs/scaling.md."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import scaling_tables as tables

PAGE = Path(__file__).parents[1] / "docs" / "scaling.md"
RECORDS = Path(__file__).parent / "records"

# Tables by their mark, with the record that each is made of.
TABLES: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "scaling": ("scaling", tables.scaling_table),
    "checkpoints": ("checkpoint_overhead", tables.checkpoint_table),
    "many islands": ("many_islands", tables.many_table),
    "constants": ("simulation", tables.constants_table),
    "simulation": ("simulation", tables.simulation_table),
    "driver": ("simulation", tables.driver_table),
    "failures": ("simulation", tables.failures_table),
}


def fill(text: str, records: Path) -> str:
    """Replace what stands between the marks `results: NAME` and `end: NAME` by its table.

    Args:
        text: of the page.
        records: the folder of the records. Where one is missing the page says so.

    Returns:
        The new text.

    Raises:
        SystemExit: a record was made with `--quick`.
    """
    for name, (record_name, table) in TABLES.items():
        file = records / f"{record_name}.json"
        body = "*Not measured yet.*"
        if file.exists():
            record = json.loads(file.read_text("utf-8"))
            if record["quick"]:
                raise SystemExit(f"{file} was made with --quick: its numbers mean nothing.")
            body = table(record)
        start, end = f"<!-- results: {name} -->", f"<!-- end: {name} -->"
        before, rest = text.split(start, 1)
        text = f"{before}{start}\n\n{body}\n\n{end}{rest.split(end, 1)[1]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(fill(PAGE.read_text("utf-8"), RECORDS), "utf-8")
    sys.exit(0)
