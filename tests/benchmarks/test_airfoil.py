"""The benchmark of noise from the network runs, and fails where a required NLL is missed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import airfoil


def test_it_runs_and_says_what_it_measured(tmp_path, capsys):
    out = tmp_path / "record.json"
    assert airfoil.main(["--quick", "--out", str(out)]) == 0
    (row,) = json.loads(out.read_text("utf-8"))["rows"]
    assert (row["table"], row["seed"]) == ("airfoil", 0)
    assert np.isfinite([row["nll"], row["nll.moments"], row["rmse"]]).all()
    assert "epochs a chain" in row["budget"]
    assert "| airfoil | 0 |" in capsys.readouterr().out


def test_rows_are_split_and_standardised_by_the_training_part():
    inputs = np.random.default_rng(0).normal(3, 2, size=(50, 2))
    (x, y), (tested, _) = airfoil.split_table(inputs, inputs[:, 0] ** 2)
    assert (len(x), len(y), len(tested)) == (40, 40, 10)
    assert x.mean(0).tolist() == pytest.approx([0, 0], abs=1e-6)
    assert x.std(0, unbiased=False).tolist() == pytest.approx([1, 1], abs=1e-6)
    assert abs(float(tested.mean())) > 1e-3


def test_a_mean_above_the_required_nll_is_a_failure():
    def rows(*values):
        return [{"table": "airfoil", "nll.moments": value} for value in values]

    assert airfoil.missed(rows(-0.95, -0.85)) == []
    assert len(airfoil.missed(rows(-0.88, -0.85))) == 1
