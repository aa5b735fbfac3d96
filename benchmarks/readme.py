"""`python -m benchmarks.readme`: put the newest records into the tables of docs/benchmarks.md."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.airfoil import airfoil_table
from benchmarks.corners import corners_table
from benchmarks.health import health_table
from benchmarks.kernels_wheel import kernels_wheel_table
from benchmarks.matched import matched_table
from benchmarks.minibatch import GOALS as MINIBATCH_GOALS
from benchmarks.no_knob import no_knob_table
from benchmarks.overfitted import overfitted_table
from benchmarks.prediction import prediction_table
from benchmarks.settling import settling_table
from benchmarks.speed_tables import whole_speed_table
from benchmarks.styles import styles_table
from benchmarks.tables import engine_table, folding_table, methods_table

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
# The name of a record, and what makes a table of it.
Table = tuple[str, Callable[[dict[str, Any]], str]]
TABLES: dict[str, Table] = {
    "speed": ("speed", whole_speed_table),
    "minibatch": ("minibatch", partial(whole_speed_table, goals=MINIBATCH_GOALS)),
    "minibatch, one thread": (
        "minibatch_one_thread",
        partial(whole_speed_table, goals=MINIBATCH_GOALS),
    ),
    "styles": ("styles", styles_table),
    "engine": ("engine", engine_table),
    "kernels_wheel": ("kernels_wheel", kernels_wheel_table),
    "folding": ("folding", folding_table),
    "prediction": ("prediction", prediction_table),
    "methods": ("methods", methods_table),
    "health": ("health", health_table),
    "health autohmc": ("health_autohmc", health_table),
    "settling": ("settling", settling_table),
    "corners": ("corners", corners_table),
    "overfitted": ("overfitted", overfitted_table),
    "no_knob": ("no_knob", no_knob_table),
    "airfoil": ("airfoil", airfoil_table),
    **{
        f"matched {study}": (f"matched_{study}", matched_table)
        for study in ("mnist7", "imdb", "cifar10")
    },
}


def fill(text: str, records: Path, tables: Mapping[str, Table] = TABLES) -> str:
    """Replace what stands between the marks `results: NAME` and `end: NAME` by its table.

    Args:
        text: of the page.
        records: the folder of the records. Where one is missing the page says so.
        tables: by their marks, the name of the record that each is made of, and what makes it.

    Returns:
        The new text.

    Raises:
        SystemExit: a record was made with `--quick`.
    """
    for name, (record_name, table) in tables.items():
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
    PAGE.write_text(fill(PAGE.read_text("utf-8"), HERE / "records"), "utf-8")
    sys.exit(0)
