"""`python -m benchmarks.scaling_page`: put the newest records into docs/scaling.md."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import readme
from benchmarks import scaling_tables as tables

PAGE = Path(__file__).parents[1] / "docs" / "scaling.md"
RECORDS = Path(__file__).parent / "records"

# Tables by their mark, with the record that each is made of.
TABLES: dict[str, readme.Table] = {
    "scaling": ("scaling", tables.scaling_table),
    "checkpoints": ("checkpoint_overhead", tables.checkpoint_table),
    "many islands": ("many_islands", tables.many_table),
    "constants": ("simulation", tables.constants_table),
    "simulation": ("simulation", tables.simulation_table),
    "driver": ("simulation", tables.driver_table),
    "failures": ("simulation", tables.failures_table),
}


def fill(text: str, records: Path) -> str:
    """Put the tables of these records into the page's text; see `benchmarks.readme`."""
    return readme.fill(text, records, TABLES)


if __name__ == "__main__":
    PAGE.write_text(fill(PAGE.read_text("utf-8"), RECORDS), "utf-8")
    sys.exit(0)
