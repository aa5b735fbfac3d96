"""The benchmark of updates; its record is on the page, and is that of the closed form."""

from __future__ import annotations

import copy
import json

from benchmarks import living

RECORD = living.shared.RECORDS / "living.json"


def test_it_runs(tmp_path, capsys):
    out = tmp_path / "record.json"
    assert living.main(["--quick", "--out", str(out)]) == 0
    rows = json.loads(out.read_text("utf-8"))["rows"]
    assert len(rows) == 2 * len(living.WAYS)
    assert [len(row["gradients"]) for row in rows[:4]] == [1, 2, 4, 2]
    assert "| SMC | two halves |" in capsys.readouterr().out


def test_the_page_is_made_from_the_record():
    text = living.PAGE.read_text("utf-8")
    assert living.fill(text, living.shared.RECORDS) == text


def test_updates_are_held_to_the_closed_form():
    rows = json.loads(RECORD.read_text("utf-8"))["rows"]
    assert living.missed(rows) == []
    for name, value, words in (
        ("mean_z", 9.0, "the mean"),
        ("deviation_ratio", 0.4, "a standard deviation"),
        ("log_evidence", -80.0, "the log evidence"),
    ):
        planted = copy.deepcopy(rows)
        planted[1][name] = value
        (failure,) = living.missed(planted)
        assert words in failure


def test_the_closed_form_is_that_of_one_coefficient():
    """With one row and one column, by hand."""
    inputs, targets = living.problem()
    few = inputs[:1].clone()
    few[:, 1:] = 0
    known = living.exact(few, targets[:1])
    precision = float(few[0, 0] ** 2 / living.NOISE + 1 / living.PRIOR)
    assert abs(float(known.covariance[0, 0]) - 1 / precision) < 1e-12
    mean = float(few[0, 0] * targets[0]) / living.NOISE / precision
    assert abs(float(known.mean[0]) - mean) < 1e-12
