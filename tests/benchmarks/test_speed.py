"""The contest: it runs, it leaves out whoever computes something else, it survives failures."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from repository import ROOT

from benchmarks import contest, speed
from benchmarks.contest import Entry, disagreement, run_contest
from benchmarks.machine import Machine
from benchmarks.peers.torch_models import TorchModel
from benchmarks.speed import PEERS, QUICK_ROWS, ROWS, Row, make_task

PLAIN = Entry("plain", sys.executable, "benchmarks.peers.plain_torch")


def checked(task):
    values, gradients = TorchModel(task).check(task.arrays["probe"])
    return {"values": values.tolist(), "gradients": gradients.tolist()}


def test_quick_runs_without_peers(tmp_path):
    out = tmp_path / "speed.json"
    words = ["--quick", "--repeats", "1", "--threads", "1", "--only", "mnist7", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.speed", *words],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(out.read_text())
    assert (record["quick"], record["judged"], record["threads"]) == (True, False, 1)
    row, smc = record["rows"]
    assert set(row["contenders"]) == {"sbmc", "plain"}
    assert set(smc["contenders"]) == {"sbmc"}
    for result in row["contenders"].values():
        assert result["seconds_per_epoch_and_particle"] > 0
        assert result["peak_bytes"] > 2**20
        assert result["warm_up_seconds"] > 0
        assert result["versions"]["torch"]
    assert row["ratios"]["plain"] > 0
    assert row["roofline"] > 0
    assert row["contenders"]["sbmc"]["settings"]["path"] == "fused"
    assert "| tiny images | HMC | 3 |" in done.stdout


@pytest.mark.parametrize("row", QUICK_ROWS, ids=lambda row: f"{row.workload}-{row.algorithm}")
def test_sbmc_computes_what_the_peers_compute(row):
    from benchmarks.peers.ours import Ours

    task = make_task(row, 1, quick=True)
    values, gradients = Ours(task).check(task.arrays["probe"])
    found = {"values": values.tolist(), "gradients": gradients.tolist()}
    reference = checked(task)
    assert disagreement(found, *map(np.array, reference.values())) == ""


def test_sbmc_does_the_work_that_it_is_asked_for():
    from benchmarks.peers.ours import Ours

    for algorithm, epochs, begin in (("hmc", 10, 0), ("smc", 2 * 5 * 5, 1), ("sghmc", 1, 0)):
        task = make_task(Row("mnist7", 3, algorithm, transitions=2), 1, quick=True)
        ours = Ours(task)
        (unit,) = ours.variants().values()
        unit()
        before = ours.evaluations
        assert unit() == (epochs, 3)
        # What is claimed is what was evaluated; SMC begins with an evaluation that is not claimed.
        assert ours.evaluations - before == 3 * (epochs + begin)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        # Twice the prior's variance in the whitened coordinates: half of ‖z‖²/2 is missing.
        (lambda v, g, z: (v + (z**2).sum(1) / 4, g + z / 2), "log posterior"),
        (lambda v, g, z: (v, g + z / 2), "gradient"),  # the gradient alone
        (lambda v, g, z: (v, g * np.nan), "gradient"),
        (lambda v, g, z: (v / 32, g / 32), "log posterior"),  # a mean instead of a sum
    ],
)
def test_a_peer_with_a_wrong_prior_is_not_compared(wrong, what):
    task = make_task(Row("mnist7", 3), 1, quick=True)
    z = task.arrays["probe"]
    values, gradients = TorchModel(task).check(z)
    assert disagreement(checked(task), values, gradients) == ""
    value, gradient = wrong(values, gradients, z)
    found = {"values": value.tolist(), "gradients": gradient.tolist()}
    assert disagreement(found, values, gradients).startswith(f"its {what} is off by")


def test_a_wrong_prior_shows_on_every_problem():
    for row in {row.workload: row for row in ROWS if row.workload != "cifar"}.values():
        task = make_task(Row(row.workload, 1), 1, quick=row.workload == "transformer")
        z = task.arrays["probe"]
        values, gradients = TorchModel(task).check(z)
        found = {"values": (values + (z**2).sum(1) / 4).tolist(), "gradients": gradients.tolist()}
        assert "log posterior" in disagreement(found, values, gradients)


def test_who_disagrees_or_breaks_is_left_out_and_the_others_go_on(monkeypatch):
    task = make_task(Row("mlp", 2), 1, quick=True)
    missing = Entry("missing", sys.executable, "benchmarks.peers.no_such_peer")
    found, rates = run_contest(task, [missing, PLAIN], repeats=2, machine=Machine(quick=True))
    assert "No module named" in found["missing"]["error"]
    assert len(found["plain"]["all_seconds"]) == len(rates) == 2
    monkeypatch.setattr(contest, "TOLERANCE", -1.0)
    found, _ = run_contest(task, [PLAIN], repeats=1, machine=Machine(quick=True))
    assert found["plain"]["error"].startswith("not compared: its log posterior is off")


def test_every_peer_has_a_module():
    for peers in PEERS.values():
        for module in peers.values():
            assert (ROOT / "benchmarks" / "peers" / f"{module}.py").exists()


def test_bad_options_are_refused(capsys, tmp_path):
    for words, message in (
        (["--threads", "0"], "`threads` must be a positive integer, but got 0."),
        (["--peers", str(tmp_path / "none")], "`peers` must be the path of a Python"),
        (["--only", "nothing"], "`only` must be among"),
    ):
        with pytest.raises(SystemExit) as stopped:
            speed.main(words)
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err
