"""The benchmark of ranks; its record is on the page, and its sums are those of one process."""

from __future__ import annotations

import json

import pytest

from benchmarks import ranks

RECORD = ranks.shared.RECORDS / "ranks.json"


@pytest.mark.integration
def test_every_network_has_a_row_for_each_number_of_ranks(tmp_path, capsys):
    out = tmp_path / "ranks.json"
    assert ranks.main(["--quick", "--repeats", "1", "--out", str(out)]) == 0
    record = json.loads(out.read_text("utf-8"))
    assert [row["ranks"] for row in record["rows"]] == list(ranks.RANKS)
    assert "| 3-4-10 | 66 | 40 |" in capsys.readouterr().out


def test_the_page_has_the_table_of_the_record():
    text = ranks.PAGE.read_text("utf-8")
    assert ranks.fill(text, ranks.shared.RECORDS) == text


def test_the_record_has_the_gradients_of_one_process():
    rows = json.loads(RECORD.read_text("utf-8"))["rows"]
    assert len(rows) == len(ranks.RANKS) * sum(len(case.examples) for case in ranks.CASES)
    assert max(row["difference"] for row in rows) <= ranks.ALLOWED


def test_the_constants_are_a_line_through_two_sizes():
    exchanges = [
        {"ranks": 2, "bytes": 100, "seconds": 1.0},
        {"ranks": 2, "bytes": 1100, "seconds": 3.0},
        {"ranks": 4, "bytes": 10, "seconds": 9.0},
    ]
    assert ranks.constants(exchanges) == {"seconds": 1.0, "bytes_per_second": 500.0}
