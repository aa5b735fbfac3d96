"""The benchmarks run and write what their tables need. No timing is asserted here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATHS = {"fused", "vmap", "loop"}


def run(module, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_engine_measures_all_paths(tmp_path):
    out = tmp_path / "engine.json"
    done = run("benchmarks.engine", "--quick", "--threads", "1", "--out", str(out))
    assert done.returncode == 0, done.stderr
    record = json.loads(out.read_text())
    assert (record["benchmark"], record["quick"], record["threads"]) == ("engine", True, 1)
    assert {row["workload"] for row in record["speed"]} == {"mnist7", "head"}
    for row in record["speed"]:
        assert set(row["seconds_per_epoch_and_particle"]) == PATHS
        assert all(len(values) == record["repeats"] for values in row["all_seconds"].values())
        assert row["fused_over_loop"] > 0
        assert row["fused_over_vmap"] > 0
    measured = [row["peak_bytes"] for row in record["speed"] if row["peak_bytes"] is not None]
    assert measured
    assert all(set(peaks) == PATHS for peaks in measured)
    assert [row["examples"] for row in record["growth"]] == [32, 64]
    assert record["hardware"]["cores"] >= 1
    assert record["versions"]["torch"]
    assert "fused against loop" in done.stdout


def test_methods_are_compared_with_the_ensemble(tmp_path):
    out = tmp_path / "methods.json"
    done = run("benchmarks.methods", "--quick", "--experiment", "digits", "--out", str(out))
    assert done.returncode == 0, done.stderr
    rows = {row["method"]: row for row in json.loads(out.read_text())["methods"]}
    assert list(rows) == ["map", "de", "s-hmc", "hmc"]
    assert rows["de"]["relative_to_ensemble"] == 1
    assert rows["hmc"]["sampling_seconds"] > 0
    # The chains start at the members, whose training is theirs to pay.
    assert rows["hmc"]["training_seconds"] > 0
    assert rows["hmc"]["anchor_epochs"] > 0
    assert "relative to the deep ensemble" in done.stdout


@pytest.mark.parametrize("module", ["benchmarks.engine", "benchmarks.methods"])
def test_bad_options_are_refused(module):
    done = run(module, "--threads", "0")
    assert done.returncode == 2
    assert "`threads` must be a positive integer, but got 0." in done.stderr
