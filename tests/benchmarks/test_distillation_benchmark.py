"""The benchmark of distillation runs; its record is on the page, and has what is required."""

from __future__ import annotations

import copy
import json

import pytest

from benchmarks import distillation

RECORD = distillation.shared.RECORDS / "distillation.json"


@pytest.mark.filterwarnings("ignore::sbmc.HealthWarning")
def test_it_runs_and_goes_on_where_it_was(tmp_path, capsys):
    out = tmp_path / "record.json"
    arguments = ["--quick", "--repeats", "1", "--out", str(out)]
    assert distillation.main(arguments) == 0
    (row,) = json.loads(out.read_text("utf-8"))["rows"]
    assert row["networks"] == 12
    assert row["thinned"][0]["particles"] <= 10
    assert set(row["student_scores"]["auroc"]) == {
        "8",
        "9",
        "white_noise",
        "perturbed",
        "all groups",
    }
    table = capsys.readouterr().out
    assert "| **distilled** |" in table
    assert distillation.main(arguments) == 0  # the seed is there: only the table is printed
    assert capsys.readouterr().out == table


def test_the_page_is_made_from_the_record():
    text = distillation.PAGE.read_text("utf-8")
    assert distillation.fill(text, distillation.shared.RECORDS) == text
    rows = json.loads(RECORD.read_text("utf-8"))["rows"]
    made = [(row["dataset"], row["seed"]) for row in rows]
    assert made == [(name, seed) for name in distillation.DATASETS for seed in distillation.SEEDS]


def test_means_over_the_seeds_are_held_to_what_is_required():
    assert distillation.missed(json.loads(RECORD.read_text("utf-8"))["rows"]) == []


@pytest.mark.parametrize(
    ("name", "by", "words"),
    [
        ("accuracy", -0.004, "accuracy is 0.0040 worse, 0.003 allowed"),
        ("nll", 0.02, "NLL is"),
        ("auroc", -0.06, "AUROC of 8 is"),
        ("ratio", 0, "10.0 times as fast, 30 required"),
    ],
)
def test_what_is_missed_is_said(name, by, words):
    row = copy.deepcopy(json.loads(RECORD.read_text("utf-8"))["rows"][0])
    scores = copy.deepcopy(row["teacher_scores"])
    if name == "ratio":
        row["ratio"] = 10.0
    elif name == "auroc":
        scores["auroc"]["8"] += by
    else:
        scores[name] += by
    (failure,) = distillation.missed([{**row, "student_scores": scores}])
    assert words in failure
