"""The benchmark of exact moves runs, and its table has a row for each start and length."""

from __future__ import annotations

import json

import pytest

from benchmarks import exact_moves


@pytest.mark.filterwarnings("ignore::sbmc.HealthWarning")
def test_it_runs_and_says_what_it_measured(tmp_path, capsys, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setattr(exact_moves, "MOVES", (0, 1))
    monkeypatch.setattr(exact_moves, "QUARTER", 4)
    out = tmp_path / "record.json"
    assert exact_moves.main(["--quick", "--out", str(out)]) == 0
    record = json.loads(out.read_text("utf-8"))
    assert record["quick"] is True
    starts = {(row["start"], row["leapfrog"], row["moves"]) for row in record["rows"]}
    assert len(starts) == len(record["rows"]) == 2 * 2 * 2
    table = capsys.readouterr().out
    assert table.count("temperature 2") == 2
    assert table.count("mini-batches alone") == 2
