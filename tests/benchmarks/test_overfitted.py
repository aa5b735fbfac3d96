"""The benchmark of overfitted networks runs, and fails where the ensemble of ten is better."""

from __future__ import annotations

import json

import pytest

from benchmarks import overfitted
from sbmc.datasets.locate import DataNotFound


def test_it_runs_and_says_what_it_measured(tmp_path, capsys):
    out = tmp_path / "record.json"
    try:
        code = overfitted.main(["--quick", "--out", str(out)])
    except DataNotFound:
        pytest.skip("the tables of the gauntlet are not on this machine")
    assert code == 0
    rows = json.loads(out.read_text("utf-8"))["rows"]
    assert [row["method"] for row in rows] == ["network", "sbmc"]
    assert capsys.readouterr().out.count("australian") == 2


def test_an_ensemble_that_is_better_on_average_is_a_failure():
    def rows(ours):
        pairs = [("sbmc", nll) for nll in ours] + [("ensemble-10", 0.5), ("ensemble-10", 0.7)]
        return [{"pair": "a", "method": method, "nll": nll} for method, nll in pairs]

    assert overfitted.missed(rows([0.4, 0.7])) == []
    assert len(overfitted.missed(rows([0.5, 0.8]))) == 1
