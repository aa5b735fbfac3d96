"""The benchmark of absurd priors and step sizes runs, and finds a frozen run that is called ok."""

from __future__ import annotations

import json

import pytest

from benchmarks import corners


def test_it_runs_and_every_corner_is_healthy_or_warned_of(tmp_path, capsys):
    pytest.importorskip("sklearn")
    out = tmp_path / "record.json"
    assert corners.main(["--quick", "--out", str(out)]) == 0
    rows = json.loads(out.read_text("utf-8"))["rows"]
    assert len(rows) == 2 * 3
    assert {row["outcome"] for row in rows} <= {"ok", "warned"}
    assert all(len(row["distance"]) == corners.PARTICLES for row in rows)
    assert "6 runs:" in capsys.readouterr().out


def run(distance, outcome="ok", variance=1.0):
    return {
        **{"network": "cnn", "variance": variance, "step_size": 0.1, "reasons": []},
        **{"outcome": outcome, "distance": [distance] * 3},
    }


def test_a_run_that_stayed_and_is_called_ok_is_unreported():
    usual, stayed = run(1.0), run(0.05)
    assert corners.unreported([usual, stayed]) == [stayed]
    assert corners.unreported([usual, run(0.05, "warned")]) == []
    # With another prior, the same distance may be all that there is to go.
    assert corners.unreported([usual, run(0.05, variance=1e-3)]) == []
    # Where nobody went anywhere, everybody is frozen.
    assert len(corners.unreported([run(0.0), run(0.0)])) == 2
    assert len(corners.unreported([usual, run(float("nan"))])) == 1


def test_an_exception_is_a_failure_and_has_a_cell(tmp_path, capsys, monkeypatch):
    pytest.importorskip("sklearn")

    def refuse(*arguments, **options):
        raise RuntimeError("planted")

    monkeypatch.setattr(corners.sbmc, "fit", refuse)
    assert corners.main(["--quick", "--out", str(tmp_path / "record.json")]) == 1
    printed = capsys.readouterr()
    assert "6 exception" in printed.out
    assert "planted" in printed.err
