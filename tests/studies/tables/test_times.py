"""What a second buys, from the wall times of records."""

import pytest
from study_records import entropies, write

from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.paper.numbers import groups
from sbmc_studies.paper.tables.lines import MISSING
from sbmc_studies.paper.tables.times import build_times, timed_rows
from sbmc_studies.records.finding import RunsInFolder


def metrics(nll):
    return {"accuracy": 0.9, "nll": nll, "brier": 0.1, "ece": 0.1, **entropies(groups("imdb"))}


@pytest.fixture
def records(tmp_path):
    write(tmp_path, "imdb", "map", metrics(0.40), wall=10.0)
    write(tmp_path, "imdb", "de", metrics(0.39), wall=40.0, islands=1)
    write(tmp_path, "imdb", "de", metrics(0.38), wall=300.0, islands=8)
    write(tmp_path, "imdb", "s-hmc", metrics(0.35), wall=60.0, islands=8)
    write(tmp_path, "imdb", "s-hmc", metrics(0.36), wall=None, islands=1)
    write(tmp_path, "imdb", "map", metrics(0.30), wall=20.0, prior_variance=1.0)
    return tmp_path


def test_rows_are_in_the_order_of_their_times(records):
    rows = timed_rows(get_experiment("imdb"), RunsInFolder(records, "imdb"))
    found = [(row.method, row.islands, row.variance, row.seconds) for row in rows]
    assert found == [
        ("map", 1, 0.025, 10.0),
        ("de", 1, 0.025, 40.0),
        ("s-hmc", 8, 0.025, 60.0),
        ("de", 8, 0.025, 300.0),
        ("map", 1, 1.0, 20.0),
    ]


def test_what_is_gained_per_second(records):
    block = build_times(get_experiment("imdb"), records)
    lines = {
        (line.cells[0], line.cells[1]): dict(zip(block.headings, line.cells, strict=True))
        for line in block.lines
    }
    ours = lines["S-HMC∥", "8"]
    assert ours["× MAP"] == "6.00"
    assert ours["gained"] == "+50.0"
    assert ours["per second"] == "+1.000"  # 50 thousandths in 50 seconds beyond the MAP's
    assert ours["matched"] == "DE, P = 1: 1.50"  # nearest in time: 40 s, not 300 s
    assert lines["MAP", "1"]["gained"] == MISSING
    assert lines["deep ensemble", "8"]["matched"] == MISSING
    # Runs with another prior have a MAP of their own.
    assert lines["MAP, v = 1", "1"]["× MAP"] == "1.00"
    assert [line.section for line in block.lines] == [False, False, False, False, True]


def test_without_records_the_table_is_empty(tmp_path):
    assert build_times(get_experiment("imdb"), tmp_path).lines == ()
