"""Networks as users write them: the benchmark runs, and judges by its record."""

import json

import pytest

from benchmarks import styles


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_quick_runs_and_computes_the_same(tmp_path, capsys):
    out = tmp_path / "styles.json"
    assert styles.main(["--quick", "--repeats", "1", "--threads", "1", "--out", str(out)]) == 0
    rows = json.loads(out.read_text())["rows"]
    assert [row["name"] for row in rows] == ["functional", "resnet", "encoder", "adapters"]
    assert all(row["path"] == "fused" and row["ratio"] > 0 for row in rows)
    assert "| required |" in capsys.readouterr().out


def test_a_missed_figure_fails(tmp_path, monkeypatch, capsys):
    row = {"title": "x", "seconds": 2.0, "other_seconds": 1.0, "ratio": 0.5, "required": 0.9}
    monkeypatch.setattr(styles, "measure", lambda *_: row)
    out = str(tmp_path / "styles.json")
    assert styles.main(["--only", "functional", "--out", out]) == 1
    assert "x: 0.50×, 0.9× required" in capsys.readouterr().err
