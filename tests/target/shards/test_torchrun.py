"""Scripts and commands under torchrun: every rank has the posterior, and lost ranks are named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from repository import ROOT

from sbmc.islands.scheduler import Interrupted
from sbmc.target.shards.group import Ranks, unpacked
from sbmc.target.shards.settings import Shards
from sbmc.target.shards.torchrun import _leave, _packed_error, torchrun_ranks, with_ranks

pytestmark = pytest.mark.integration

SCRIPT = Path(__file__).with_name("torchrun_script.py")


def torchrun(ranks: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return subprocess.run(
        [*launcher, f"--nproc-per-node={ranks}", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_script_goes_on_with_fewer_ranks_after_one_was_killed(tmp_path):
    quiet, run = tmp_path / "undisturbed", tmp_path / "run"
    done = torchrun(2, SCRIPT, quiet, "none")
    assert done.returncode == 0, done.stderr
    expected, _ = torch.load(quiet / "posterior-0.pt")
    assert torch.equal(torch.load(quiet / "posterior-1.pt")[0], expected)

    killed = torchrun(4, SCRIPT, run, 3)
    assert killed.returncode != 0
    assert "rank 3 of 4 was lost (the connection was closed)" in killed.stderr
    assert not list(run.glob("posterior-*"))
    resumed = torchrun(2, SCRIPT, run, "none")
    assert resumed.returncode == 0, resumed.stderr
    positions, attempts = torch.load(run / "posterior-0.pt")
    assert attempts == 2
    torch.testing.assert_close(positions, expected, rtol=1e-8, atol=1e-8)


def test_ctrl_c_is_left_to_rank_0_which_saves_a_snapshot(tmp_path):
    quiet, run = tmp_path / "undisturbed", tmp_path / "run"
    assert torchrun(2, SCRIPT, quiet, "none").returncode == 0
    stopped = torchrun(2, SCRIPT, run, "all")
    assert stopped.returncode != 0
    assert "stopped with 0 of 1 islands done; the checkpoint in" in stopped.stderr
    assert "was lost" not in stopped.stderr
    resumed = torchrun(2, SCRIPT, run, "none")
    assert resumed.returncode == 0, resumed.stderr
    positions, attempts = torch.load(run / "posterior-1.pt")
    assert attempts == 2
    assert torch.equal(positions, torch.load(quiet / "posterior-0.pt")[0])


def test_calls_of_one_script_share_their_connections(tmp_path):
    # A sweep of hundreds of fits would run out of files.
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    groups: list[Ranks] = []

    def group_of(timeout: float) -> Ranks:
        with_ranks(lambda: groups.append(torchrun_ranks()), Shards("torchrun", timeout=timeout))
        return groups[-1]

    try:
        first = group_of(60)
        assert group_of(60) is first
        other = group_of(5)
        assert other is not first
        other.broken = True
        assert group_of(5) is not other
    finally:
        _leave()


def test_every_error_can_be_sent_to_the_other_ranks():
    class OfTwo(Exception):
        def __init__(self, one, two):
            super().__init__(f"{one} and {two}")

    for error, name in (
        (Interrupted(1, 2, "run"), "Interrupted"),
        (OfTwo(1, 2), "RuntimeError"),  # cannot be made again from its text
        (ValueError("7"), "ValueError"),
    ):
        again, _ = unpacked(_packed_error(error))
        assert type(again).__name__ == name
        assert str(error) in str(again)


def test_a_command_is_run_by_rank_0_and_shows_its_results_once(tmp_path):
    options = ["--method", "s-hmc", "--islands", 1, "--epochs", 20, "--shards", "torchrun"]
    done = torchrun(2, "-m", "sbmc", "run", "digits", *options, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("record written") == 1
    assert len(list(tmp_path.rglob("record.json"))) == 1
    refused = torchrun(2, "-m", "sbmc", "run", "digits", "--shards", "torchrun", "--out", SCRIPT)
    assert refused.returncode != 0
    assert "`out` must be a folder" in refused.stderr


@pytest.mark.parametrize("way", ["fsdp", "tensor"])
def test_a_spread_module_can_be_stepped_and_is_refused_by_fit(way):
    done = torchrun(2, SCRIPT.with_name("spread_module.py"), way)
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        assert f"rank {rank}, {way}: differs by" in done.stdout
    assert "`model` must be whole in this process" in done.stdout
    assert "but got the spread parameter '0.weight'" in done.stdout
