"""`python -m benchmarks.readme`: put the newest records into the tables of README.md."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.speed_tables import whole_speed_table
from benchmarks.tables import engine_table, folding_table, methods_table

HERE = Path(__file__).parent
TABLES = {
    "speed": whole_speed_table,
    "engine": engine_table,
    "folding": folding_table,
    "methods": methods_table,
}


def fill(text: str, records: Path) -> str:
    """Replace what stands between the markers `results: NAME` and `end: NAME` by its table.

    Args:
        text: of the page.
        records: the folder of the records. Where one is missing the page says so.

    Returns:
        The new text.
    """
    for name, table in TABLES.items():
        file = records / f"{name}.json"
        body = "*Not measured yet.*"
        if file.exists():
            record = json.loads(file.read_text("utf-8"))
            if record["quick"]:
                raise SystemExit(f"{file} was made with --quick: its numbers mean nothing.")
            body = table(record)
        start, end = f"<!-- results: {name} -->", f"<!-- end: {name} -->"
        before, rest = text.split(start, 1)
        after = rest.split(end, 1)[1]
        text = f"{before}{start}\n\n{body}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    page = HERE / "README.md"
    page.write_text(fill(page.read_text("utf-8"), HERE / "records"), "utf-8")
    sys.exit(0)
