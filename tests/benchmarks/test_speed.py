"""The contest: it runs, it leaves out whoever computes something else, it survives failures."""

import json
import sys

import numpy as np
import pytest
from repository import ROOT

from benchmarks import speed
from benchmarks.contest import Entry, Failed, Process, disagreement, run_contest
from benchmarks.machine import Machine
from benchmarks.peers.torch_models import TorchModel
from benchmarks.speed import PEERS, QUICK_ROWS, ROWS, Row, entries_of, make_task

# A contender that needs no library but numpy: it reads its answers, and sleeps in its turns.
PEER = """
import json, pathlib, time
from benchmarks.peers.protocol import Done, serve

class Peer:
    packages = ("numpy",)
    settings = {{}}
    def __init__(self, task):
        pass
    def check(self, probe):
        answers = json.loads(pathlib.Path({answers!r}).read_text())
        return [{change}value for value in answers["values"]], answers["gradients"]
    def variants(self):
        return {{"sleeps": lambda: time.sleep(0.2) or Done(1, 2)}}

serve(Peer)
"""


def checked(task):
    values, gradients = TorchModel(task).check(task.arrays["probe"])
    return {"values": values.tolist(), "gradients": gradients.tolist()}


def test_quick_runs_without_peers(tmp_path, capsys):
    out = tmp_path / "speed.json"
    words = ["--quick", "--repeats", "1", "--threads", "1", "--only", "strided", "--out", str(out)]
    assert speed.main(words) == 0
    record = json.loads(out.read_text())
    assert (record["quick"], record["judged"], record["threads"]) == (True, False, 1)
    (row,) = record["rows"]
    assert set(row["contenders"]) == {"sbmc", "plain"}
    for result in row["contenders"].values():
        assert result["seconds_per_epoch_and_particle"] > 0
        assert result["peak_bytes"] > 2**20
        assert result["warm_up_seconds"] > 0
        assert result["versions"]["torch"]
    assert row["ratios"]["plain"] > 0
    assert row["roofline"] > 0
    assert row["contenders"]["sbmc"]["settings"]["path"] == "fused"
    assert "| tiny colour images | HMC | 3 |" in capsys.readouterr().out


def test_who_takes_part_without_peers():
    for row, names in ((Row("mnist7", 3), ["sbmc", "plain"]), (Row("mnist7", 3, "smc"), ["sbmc"])):
        assert [entry.name for entry in entries_of(row, None)] == names


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

    for algorithm, epochs, begin in (("hmc", 10, 0), ("smc", 2 * 5 * 5, 1), ("sghmc", 4, 0)):
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


def test_who_disagrees_or_breaks_is_left_out_and_the_others_go_on(tmp_path, monkeypatch):
    task = make_task(Row("mlp", 2), 1, quick=True)
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps(checked(task)))
    for name, change in (("right", ""), ("wrong", "1.01 * ")):
        code = PEER.format(answers=str(answers), change=change)
        (tmp_path / f"{name}_peer.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    names = ("missing", "wrong", "right")
    entries = [Entry(name, sys.executable, f"{name}_peer") for name in names]
    found, rates = run_contest(task, entries, repeats=2, machine=Machine(quick=True))
    assert "No module named" in found["missing"]["error"]
    assert found["wrong"]["error"].startswith("not compared: its log posterior is off")
    assert len(found["right"]["all_seconds"]) == len(rates) == 2
    assert found["right"]["seconds_per_epoch_and_particle"] > 0.05


def test_one_that_ended_before_it_was_asked_is_closed_in_peace(tmp_path):
    process = Process(Entry("missing", sys.executable, "missing_peer"), tmp_path, 1)
    process._process.wait()  # so that what it is asked stays in the pipe's buffer
    with pytest.raises(Failed, match=r"ended with code 1 .*No module named missing_peer"):
        process.ask("check")
    process.close()
    assert process._process.stdin.closed


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


def test_update_puts_the_rows_into_the_record_beside_the_others(tmp_path, monkeypatch, capsys):
    def measured(row, **_):
        result = {
            "seconds_per_epoch_and_particle": 1e-3,
            "warm_up_seconds": 0.1,
            "peak_bytes": 2**20,
        }
        return {
            **vars(row),
            "title": row.workload,
            "contenders": {"sbmc": result, "plain": result},
            "ratios": {"plain": 12.0, "blackjax": 0.5},
            "rates": {"flops_per_second": 1e9, "bytes_per_second": 1e9},
            "roofline": 0.5,
        }

    monkeypatch.setattr(speed, "measure_row", measured)
    out = tmp_path / "speed.json"
    words = ["--only", "regression", "--update", "--peers", sys.executable, "--out", str(out)]
    with pytest.raises(SystemExit, match="no record of this kind of machine"):
        speed.main(words)
    old = measured(Row("head", 80))
    threads = speed.torch.get_num_threads()
    record = {"benchmark": "speed", "quick": False, "threads": threads, "repeats": 5, "load": 0.5}
    record |= {"hardware": speed.hardware_summary(), "versions": speed.software_versions()}
    out.write_text(json.dumps({**record, "rows": [old]}))
    assert speed.main(words) == 1  # 0.5 times the best JAX peer is below what is required
    assert "regression, 10 particles, against the best JAX peer: 0.5×" in capsys.readouterr().err
    stored = json.loads(out.read_text())
    assert stored["rows"][0] == old
    assert [row["particles"] for row in stored["rows"][1:]] == [10, 100]
    assert all("load" in row["apart"] for row in stored["rows"][1:])
    assert "Measured in a run of their own: regression" in speed.speed_table(stored)
    out.write_text(json.dumps({**record, "threads": threads + 1, "rows": [old]}))
    with pytest.raises(SystemExit, match="measure all rows"):
        speed.main(words)
    with pytest.raises(SystemExit):
        speed.main(["--update"])
