"""The load test of the server; its record is on the page, and has what is required."""

from __future__ import annotations

import copy
import json

import pytest

from benchmarks import serving
from benchmarks.serving_client import Answer, percentile

RECORD = serving.shared.RECORDS / "serving.json"


@pytest.mark.integration
def test_it_runs(tmp_path, capsys):
    out = tmp_path / "record.json"
    assert serving.main(["--quick", "--out", str(out)]) == 0
    rows = json.loads(out.read_text("utf-8"))["rows"]
    assert [(row["requests"], row["wrong"]) for row in rows] == [(100, 0), (100, 0), (10, 0)]
    assert [row["requests_per_batch"] for row in rows[1:]] == [1, 1]
    assert "| one client alone | 10 | 1 | 0 |" in capsys.readouterr().out


def test_the_page_is_made_from_the_record():
    text = serving.PAGE.read_text("utf-8")
    assert serving.fill(text, serving.shared.RECORDS) == text


def test_ten_thousand_requests_were_answered_without_an_error():
    rows = json.loads(RECORD.read_text("utf-8"))["rows"]
    assert (rows[0]["requests"], rows[0]["at_once"]) == (10_000, 32)
    assert serving.missed(rows) == []
    planted = copy.deepcopy(rows)
    planted[0]["wrong"] = 1
    assert serving.missed(planted) == ["requests are joined: 1 of 10,000 requests"]


def test_answers_that_are_late_wrong_or_missing_are_told_from_right_ones():
    body = json.dumps({"predictions": [{"probabilities": [0.25, 0.75]}]}).encode()
    expected = [[0.25, 0.75], [0.5, 0.5]]
    assert serving.is_right(Answer(200, body, 0.1), 2, expected)
    assert not serving.is_right(Answer(200, body, 0.1), 1, expected)
    assert not serving.is_right(Answer(503, body, 0.1), 0, expected)
    assert not serving.is_right(Answer(0, b"", 0.1), 0, expected)


def test_percentiles():
    values = [float(value) for value in range(100, 0, -1)]
    assert [percentile(values, share) for share in (0.5, 0.99, 1.0)] == [50.0, 99.0, 100.0]
