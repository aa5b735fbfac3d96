"""The benchmarks of data of any size; their records are on the page, and hold what is required."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from repository import ROOT

from benchmarks import big_data, shared_batches

RECORDS = big_data.shared.RECORDS


@pytest.mark.slow
def test_twenty_gigabytes_are_sampled_and_predicted_in_two(tmp_path):
    """In a process of its own, since this one may hold anything."""
    out = tmp_path / "record.json"
    command = [sys.executable, "-m", "benchmarks.big_data", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    record = json.loads(out.read_text("utf-8"))
    assert record["bytes"] > 19.9e9
    assert record["rows_predicted"] == record["rows"]
    assert record["rows_written"] == -(-record["rows"] // 1_000)
    assert record["mini_batches"] == -(-record["rows"] // 5_000)
    assert 0 < record["anonymous_sampling"] < 2 * 2**30
    assert 0 < record["anonymous_predicting"] < 2 * 2**30


def test_the_page_is_made_from_the_records():
    text = big_data.PAGE.read_text("utf-8")
    assert big_data.fill(text, RECORDS) == text
    assert shared_batches.fill(text, RECORDS) == text


def test_memory_is_held_to_what_is_required():
    record = json.loads((RECORDS / "big_data.json").read_text("utf-8"))
    assert record["bytes"] > 19.9e9
    assert big_data.missed(record) == []
    planted = {**record, "anonymous_sampling": 2**31, "rows_predicted": 3}
    assert len(big_data.missed(planted)) == 2


def test_anonymous_memory_is_what_is_in_no_file():
    before = big_data.anonymous_bytes()
    held = torch.ones(2**26)
    assert big_data.anonymous_bytes() - before > 0.9 * held.nbytes


def test_statistics_of_particles_that_share_an_error():
    """Particles with a common part of half the variance have ρ = 1/2; five standard errors."""
    rng = torch.Generator().manual_seed(0)
    own, common = (torch.randn(4_000, n, 2, generator=rng).double() for n in (10, 1))
    mean, covariance = torch.ones(2).double(), 4 * torch.eye(2).double()
    found = shared_batches.statistics(1 + 2 * (own + common), mean, covariance)
    assert found["total"] == pytest.approx(2, abs=0.1)
    assert found["within"] == pytest.approx(1, abs=0.03)
    assert found["correlation"] == pytest.approx(0.5, abs=0.03)
    assert abs(shared_batches.statistics(1 + 2 * own, mean, covariance)["correlation"]) < 0.01


def test_shared_batches_are_measured(tmp_path, capsys):
    out = tmp_path / "record.json"
    assert shared_batches.main(["--quick", "--out", str(out)]) == 0
    assert "| SGHMC |" in capsys.readouterr().out
    (row,) = json.loads(out.read_text("utf-8"))["rows"]
    assert set(row["own"]) == set(row["shared"]) == {"total", "within", "correlation"}


def test_the_record_shows_what_the_page_says():
    rows = json.loads((RECORDS / "shared_batches.json").read_text("utf-8"))["rows"]
    for row in rows:
        own, shared = row["own"], row["shared"]
        assert shared["total"] == pytest.approx(own["total"], rel=0.05)
        assert abs(own["correlation"]) < 0.03
        assert abs(shared["within"] - 1) < abs(own["within"] - 1)
    # Small steps on large batches first; then the gradient's noise grows.
    assert rows[0]["shared"]["correlation"] < 0.03
    assert all(row["shared"]["correlation"] > 0.2 for row in rows[1:])
