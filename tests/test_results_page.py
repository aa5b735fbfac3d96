"""The numbers that README and experiments/README print are those of the committed records."""

from pathlib import Path

import pytest

from sbmc.studies.experiments import get_experiment
from sbmc.studies.table import write_tables

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "experiments" / "records"


@pytest.mark.parametrize(
    ("page", "experiment"),
    [
        ("README.md", "mnist7"),
        ("experiments/README.md", "mnist7"),
        ("experiments/README.md", "digits"),
    ],
)
def test_tables_are_made_from_the_records(page, experiment):
    printed = (ROOT / page).read_text("utf-8")
    made = write_tables(printed, get_experiment(experiment), RECORDS)
    assert printed == made, f"run: sbmc table {experiment} --write {page}"
    assert made.count("|") > 100
