"""Folders that several runs or processes share.

A refused run removes what it has written itself, and nothing else. A checkpoint has one run at a
time.
"""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import forked
import pytest
import torch
from grouped import in_groups
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.islands.checkpoints import CheckpointAt
from sbmc_studies.experiments.run_spec import RunSpec
from sbmc_studies.runs.run_file import RunFile, open_run

DATA = (
    torch.randn(20, 3, generator=torch.Generator().manual_seed(0)),
    torch.randint(2, (20,), generator=torch.Generator().manual_seed(1)),
)
QUICK = {"particles": 2, "progress": False, "sampler": sbmc.HMC(steps=3, leapfrog=1)}


def spec_of(method: str, seed: int = 0) -> RunSpec:
    return RunSpec("digits", method, {"s": 0.1, "islands": 1}, seed)


def refuse(spec: RunSpec, out: Path, meanwhile=lambda folder: None) -> None:
    folder = spec.folder(out)

    def run() -> None:
        with open_run(RunFile(spec), folder):
            meanwhile(folder)
            raise BadInput("on purpose")

    with pytest.raises(BadInput, match="on purpose"):
        run()


# A refused run


def test_a_refused_run_leaves_the_records_of_others_in_a_new_out(tmp_path):
    out = tmp_path / "new" / "out"

    def another_run_ends(folder):
        for method, seed in (("map", 0), ("s-hmc", 1)):
            other = spec_of(method, seed).folder(out)
            other.mkdir(parents=True)
            (other / "record.json").write_text("hours of work")

    refuse(spec_of("s-hmc"), out, another_run_ends)
    left = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert len(left) == 2
    assert all(name.endswith("record.json") for name in left)
    assert not spec_of("s-hmc").folder(out).exists()


def test_a_refused_run_removes_its_own_files_and_the_folders_that_it_made(tmp_path):
    def writes(folder):
        (folder / "trained-anchor.safetensors").write_bytes(b"")
        (folder / "checkpoint").mkdir()
        for name in ("manifest.json", "pilot.json", "island-00000.safetensors", ".a.1.part"):
            (folder / "checkpoint" / name).write_bytes(b"")

    refuse(spec_of("s-hmc"), tmp_path / "new" / "out", writes)
    assert list(tmp_path.iterdir()) == []


def test_a_refused_run_leaves_files_that_are_not_its_own(tmp_path):
    def a_user_writes(folder):
        (folder / "notes.txt").write_text("mine")

    refuse(spec_of("s-hmc"), tmp_path, a_user_writes)
    folder = spec_of("s-hmc").folder(tmp_path)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_a_refused_run_leaves_networks_that_were_there_before(tmp_path):
    folder = spec_of("s-hmc").folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / "trained-anchor.safetensors").write_bytes(b"from another machine")
    refuse(spec_of("s-hmc"), tmp_path)
    assert [path.name for path in folder.iterdir()] == ["trained-anchor.safetensors"]


def test_a_run_that_goes_on_and_is_refused_keeps_all_that_it_has_finished(tmp_path):
    spec = spec_of("s-hmc")
    folder = spec.folder(tmp_path)
    RunFile(spec).write(folder)

    def an_island_ends(folder):
        (folder / "checkpoint").mkdir()
        (folder / "checkpoint" / "island-00000.safetensors").write_bytes(b"")

    refuse(spec, tmp_path, an_island_ends)
    names = {path.name for path in folder.rglob("*")}
    assert names == {"run.json", "checkpoint", "island-00000.safetensors"}


# One checkpoint, one run


def make_net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Linear(3, 2)


def fit(place, **options):
    return sbmc.fit(make_net(), DATA, **in_groups(QUICK | options | {"checkpoint": place}))


class Slow(sbmc.HMC):
    """Waits in the middle of a run, with the checkpoint open."""

    entered = threading.Event()
    leave = threading.Event()

    def run(self, *arguments, **options):
        Slow.entered.set()
        assert Slow.leave.wait(30)
        return super().run(*arguments, **options)


@pytest.fixture
def busy(tmp_path):
    """A checkpoint that a thread of this process is at, until the test ends."""
    Slow.entered.clear()
    Slow.leave.clear()
    place = tmp_path / "run"
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(fit, place, sampler=Slow(steps=3, leapfrog=1))
        assert Slow.entered.wait(30)
        try:
            yield place
        finally:
            Slow.leave.set()
        assert done.result(30).positions.shape == (1, 2, 8)
    assert ".lock" not in os.listdir(place)


def test_a_second_thread_is_refused(busy):
    with pytest.raises(BadInput) as caught:
        fit(busy, sampler=Slow(steps=3, leapfrog=1))
    words = str(caught.value)
    assert words.startswith("`checkpoint` must be ")
    for part in (str(busy), f"this process ({os.getpid()})", "another folder"):
        assert part in words


def test_the_same_folder_by_another_name_is_refused(busy, tmp_path):
    (tmp_path / "link").symlink_to(busy)
    with pytest.raises(BadInput, match=r"this process \(\d+\)"):
        fit(tmp_path / "link")
    with pytest.raises(BadInput, match=r"this process \(\d+\)"):
        fit(f"file://{busy}")


OTHER = """
import sys, torch, sbmc
from torch import nn
x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
y = torch.randint(2, (20,), generator=torch.Generator().manual_seed(1))
class HMC(sbmc.HMC):
    def run(self, *arguments, **options):
        print("in", flush=True)
        signal.pause()
torch.manual_seed(3)
sampler = HMC(steps=3, leapfrog=1) if "wait" in sys.argv else sbmc.HMC(steps=3, leapfrog=1)
try:
    sbmc.fit(nn.Linear(3, 2), (x, y), particles=2, sampler=sampler, progress=False,
             compute=sbmc.Compute(checkpoint=sys.argv[1]))
    print("done")
except sbmc.BadInput as error:
    print(error)
"""


def start(*arguments):
    return forked.Child(["-c", OTHER, *arguments])


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path):
    place = tmp_path / "run"
    with start(place, "wait") as first:
        assert first.stdout.readline() == "in\n"
        with pytest.raises(BadInput) as caught:
            fit(place)
        for part in (str(place), f"process {first.pid}", "another folder"):
            assert part in str(caught.value)
        first.send_signal(signal.SIGKILL)
    assert first.returncode == -signal.SIGKILL
    # What a killed process leaves locks nobody out.
    assert fit(place).positions.shape == (1, 2, 8)
    assert ".lock" not in os.listdir(place)


def test_a_killed_process_that_wrote_nothing_else_leaves_an_empty_checkpoint(tmp_path):
    (tmp_path / ".lock").write_text("process 1 on a machine that is gone")
    assert fit(tmp_path).positions.shape == (1, 2, 8)


def test_workers_of_an_executor_are_let_in(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        found = fit(tmp_path / "threads", executor=pool, islands=3)
    expected = fit(None, executor=sbmc.InProcess(fold=1), islands=3)
    assert torch.equal(found.positions, expected.positions)


def test_a_refused_fit_leaves_no_folder_behind(tmp_path):
    with pytest.raises(BadInput, match="`islands`"):
        fit(tmp_path / "a" / "b", islands=0)
    assert list(tmp_path.iterdir()) == []


def test_a_url_is_not_locked_and_the_log_says_so(caplog):
    with caplog.at_level("INFO", logger="sbmc"):
        fit(CheckpointAt("memory://unlocked/run"))
    assert "memory://unlocked/run" in caplog.text
    assert "cannot be locked" in caplog.text
