"""The numbers that README and experiments/README print are those of the committed records."""

import re
from pathlib import Path

import pytest

from sbmc.studies.experiments import get_experiment
from sbmc.studies.table import build_table, render_markdown

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "experiments" / "records"
MARKED = re.compile(r"<!-- table: mnist7 -->\n(.*?)<!-- end: mnist7 -->", re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "experiments/README.md"])
def test_tables_are_made_from_the_records(page):
    made = render_markdown(build_table(get_experiment("mnist7"), RECORDS)).splitlines()
    printed = MARKED.search((ROOT / page).read_text("utf-8"))[1].split("\n")
    rows = [line for line in printed if line.strip()]
    assert len(rows) > 10
    assert set(rows) <= set(made)
