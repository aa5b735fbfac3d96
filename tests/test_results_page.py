"""The numbers that pages print are those of the committed records."""

import pytest
from repository import ROOT

from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.paper.numbers import table_names
from sbmc_studies.paper.tables.paper_index import read_index, write_index
from sbmc_studies.paper.tables.study import differences, write_tables
from sbmc_studies.records.pooling import SEEDS, find_records

pytestmark = pytest.mark.usefixtures("committed_records")

RECORDS = ROOT / "experiments" / "records"
MNIST7 = get_experiment("mnist7")
PAPER_ROWS = [row for row in MNIST7.rows if row.section == "paper"]


@pytest.mark.parametrize(
    ("page", "experiment"),
    [
        ("docs/reproducing.md", "mnist7"),
        ("docs/results.md", "mnist7"),
        ("docs/results.md", "digits"),
        ("docs/results.md", "imdb"),
        ("docs/results.md", "cifar10"),
        ("docs/language.md", "shakespeare"),
    ],
)
def test_tables_are_made_from_the_records(page, experiment):
    printed = (ROOT / page).read_text("utf-8")
    made = write_tables(printed, get_experiment(experiment), RECORDS)
    assert printed == made, f"run: sbmc table {experiment} --write {page}"
    assert made.count("|") > 50


def test_the_list_of_the_papers_tables_is_made_from_the_records():
    page = "docs/results.md"
    printed = (ROOT / page).read_text("utf-8")
    assert printed == write_index(printed, RECORDS), f"run: sbmc table paper --write {page}"


def test_every_table_of_the_paper_is_in_the_list():
    listed = {name for entry in read_index() for name in (entry.table, entry.confidence) if name}
    # Printed twice in the paper, with and without errors.
    assert set(table_names()) - listed == {"mnist7_confidence_optimal_f1_main"}


@pytest.mark.parametrize("row", PAPER_ROWS, ids=lambda row: f"{row.label}-{dict(row.overrides)}")
def test_every_row_of_the_papers_table_has_five_records(row):
    found = find_records(RECORDS, MNIST7, row)
    assert [record.seed for record in found] == list(SEEDS)


def test_every_row_outside_the_tolerance_has_a_reason_and_no_other_row_has():
    lines = differences(MNIST7, RECORDS)
    assert not [line for line in lines if "no reason is known" in line]
    explained = [row for row in MNIST7.rows if row.differs]
    # Two islands may be within the tolerance by evidence too.
    assert len(explained) - len(lines) <= 1
