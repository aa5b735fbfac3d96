"""Worker processes: same bits, real SIGKILLs, errors of every kind, and nobody left behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from islands.executors.pieces import (
    SAMPLERS,
    Deadly,
    Odd,
    Slow,
    alone,
    categorical,
    chatty,
    claim,
    is_alive,
    make_work,
    open_checkpoint,
    pids_in,
    run_script,
    same_bits,
    wait_until,
)

from sbmc.checks import BadInput
from sbmc.islands.executors import InProcess, Processes
from sbmc.islands.scheduler import Interrupted, run_batches


def drive(job, executor, islands=2, **settings):
    return run_batches(job, alone(islands), executor=executor, progress=False, **settings)


def children() -> set[int]:
    """Processes that this one has started, those that nobody has waited for included."""
    folder = Path(f"/proc/{os.getpid()}/task")
    found = [(task / "children").read_text().split() for task in folder.iterdir()]
    return {int(pid) for pids in found for pid in pids}


@pytest.fixture(autouse=True)
def _nobody_is_left_behind():
    before = children()
    yield
    assert children() <= before


def test_same_bits_as_in_process():
    job = make_work(SAMPLERS["hmc"])
    expected = drive(job, InProcess(fold=1), 3)
    assert same_bits(drive(job, Processes(workers=2), 3), expected)
    # The planted bug: noise that follows the worker, not the island.
    assert not same_bits(drive(replace(job, seed=12), InProcess(fold=1), 3), expected)


def test_a_killed_worker_is_replaced_and_its_island_goes_on_with_the_same_bits(tmp_path):
    # From inside and at a given call, so that it is always in the middle of an island.
    expected = drive(make_work(SAMPLERS["smc"], categorical), InProcess(fold=1))
    job = make_work(SAMPLERS["smc"], Deadly(str(tmp_path)))
    checkpoint = open_checkpoint(tmp_path / "run", alone(2))
    islands = drive(job, Processes(workers=1), checkpoint=checkpoint)
    assert (tmp_path / "killed-0").exists()
    assert same_bits(islands, expected)
    assert sorted(island.report.attempts for island in islands) == [1, 2]


@pytest.mark.integration
def test_a_worker_that_is_killed_from_outside(tmp_path):
    expected = drive(make_work(SAMPLERS["hmc"], categorical), InProcess(fold=1), 2)
    job, killed = make_work(SAMPLERS["hmc"], Slow(str(tmp_path), 0.02)), []

    def kill() -> None:
        wait_until(lambda: pids_in(tmp_path))
        time.sleep(0.3)
        killed.extend(pids_in(tmp_path))
        for pid in killed:
            os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    islands = drive(job, Processes(workers=1), 2)
    thread.join()
    assert len(killed) == 1
    assert same_bits(islands, expected)
    assert sum(island.report.attempts for island in islands) == 3


def test_an_island_whose_workers_die_is_given_up_and_says_by_which_signal(monkeypatch):
    dies = "import os; os.kill(os.getpid(), 9)"
    monkeypatch.setattr("sbmc.islands.executors.processes._BEGIN", dies)
    (island,) = drive(make_work(SAMPLERS["hmc"]), Processes(workers=1), 1, retries=1)
    assert island.report.outcome == "failed"
    assert island.report.message == "WorkerLost: its process ended by signal 9"
    assert island.report.attempts == 2


@dataclass
class Sequel:
    """Raises one error after the other, each once; but not where the target is built."""

    folder: str
    parent: int

    def __call__(self, outputs, targets):
        if os.getpid() != self.parent:
            for error in (ValueError, MemoryError, SystemExit, KeyboardInterrupt, Odd):
                if claim(f"{self.folder}/{error.__name__}"):
                    raise error("on purpose")
        return categorical(outputs, targets)


def test_errors_of_the_likelihood_end_their_island_alone(tmp_path):
    job = make_work(SAMPLERS["hmc"], Sequel(str(tmp_path), os.getpid()))
    islands = drive(job, Processes(workers=1), 6)
    assert [island.report.message for island in islands] == [
        "ValueError: on purpose",
        "MemoryError: on purpose",
        "RuntimeError: SystemExit: on purpose",
        "RuntimeError: KeyboardInterrupt: on purpose",
        "RuntimeError: Odd: ",
        "",
    ]
    assert [island.report.attempts for island in islands] == [1] * 6


@dataclass
class ThreadsSeen:
    """Writes down how many threads a worker has, and prints as well."""

    folder: str

    def __call__(self, outputs, targets):
        seen = torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS")
        Path(self.folder, f"pid-{os.getpid()}").write_text(repr(seen))
        return chatty(outputs, targets)


def test_prints_do_no_harm_threads_are_set_and_idle_workers_are_not_started(tmp_path, capfd):
    job = make_work(SAMPLERS["hmc"], ThreadsSeen(str(tmp_path)), threads=None)
    capfd.readouterr()
    islands = drive(job, Processes(workers=9, threads=3), 1)
    out, err = capfd.readouterr()
    assert out == ""
    assert "a model may print\n" in err
    assert "in any way\n" in err
    (other,) = set(pids_in(tmp_path)) - {os.getpid()}
    # The worker may use three threads; so small a network is evaluated by one of them.
    assert (tmp_path / f"pid-{other}").read_text() == "(1, '3')"
    plain = make_work(SAMPLERS["hmc"], categorical)
    assert same_bits(islands, drive(plain, InProcess(fold=1), 1))


class Stubborn:
    """Cannot be pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, outputs, targets):
        return categorical(outputs, targets)


def _refuse() -> None:
    raise ModuleNotFoundError("No module named 'elsewhere'")


class Foreign(Stubborn):
    """Can be pickled, and not be made again."""

    def __init__(self) -> None:
        pass

    def __reduce__(self):
        return _refuse, ()


def test_work_that_cannot_be_sent_is_refused():
    with pytest.raises(BadInput, match=r"`executor` must be 'in-process' for this model.*lock"):
        drive(make_work(SAMPLERS["hmc"], Stubborn()), Processes(workers=1))


def test_work_that_cannot_be_made_in_the_worker_stops_the_run():
    with pytest.raises(BadInput, match=r"workers can import .* ModuleNotFoundError: No module"):
        drive(make_work(SAMPLERS["hmc"], Foreign()), Processes(workers=1), 3)


def test_workers_that_die_at_their_start_stop_the_run(monkeypatch):
    monkeypatch.setattr("sbmc.islands.executors.processes._BEGIN", "raise SystemExit(3)")
    with pytest.raises(RuntimeError, match="3 workers in a row died while they started"):
        drive(make_work(SAMPLERS["hmc"]), Processes(workers=1), 9)


@pytest.mark.integration
def test_a_worker_that_does_not_stop_in_time_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("sbmc.islands.executors.processes.GRACE", 0.2)
    (tmp_path / "pids").mkdir()
    job = make_work(SAMPLERS["hmc"], Slow(str(tmp_path / "pids"), 600.0))
    checkpoint = open_checkpoint(tmp_path / "run", alone(2))

    def press() -> None:
        wait_until(lambda: pids_in(tmp_path / "pids"))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(Interrupted, match="0 of 2 islands done"):
        drive(job, Processes(workers=1), checkpoint=checkpoint)
    thread.join()


MAIN = """
import torch, sbmc
from torch import nn
from sbmc.islands.executors import InProcess, Processes

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
    def forward(self, x):
        return torch.tanh(self.layer(x)) * 2

class Loss:
    def __call__(self, outputs, targets):
        return torch.log_softmax(outputs, -1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)

torch.set_num_threads(1)
torch.manual_seed(0)
net, data = Net(), (torch.randn(20, 2), torch.randint(2, (20,)))
runs = [
    sbmc.fit(net, data, sampler=sbmc.HMC(steps=3), islands=2, particles=2,
             likelihood=lambda o, t: Loss()(o, t), progress=False,
             compute=sbmc.Compute(executor=executor))
    for executor in (InProcess(fold=1), Processes(workers=1))
]
print(torch.equal(runs[0].positions, runs[1].positions))
"""


def test_a_script_needs_no_guard_and_may_define_its_model_itself(tmp_path):
    out, err = run_script(tmp_path / "script.py", MAIN).communicate(timeout=240)
    assert out.split() == ["True"], err


SCRIPT = """
import sys
from pathlib import Path
from islands.executors.pieces import SAMPLERS, Slow, alone, make_work, open_checkpoint
from sbmc.islands.executors import Processes
from sbmc.islands.scheduler import run_batches

folder, kept = Path(sys.argv[1]), sys.argv[2] == "kept"
work = make_work(SAMPLERS["hmc"], Slow(str(folder), float(sys.argv[3])))
checkpoint = open_checkpoint(folder / "run", alone(2)) if kept else None
run_batches(work, alone(2), executor=Processes(workers=2), checkpoint=checkpoint, progress=False)
"""


def start_script(folder: Path, kept: str, seconds: float = 0.02):
    """The script and its workers, once both of them are at work."""
    script = run_script(folder / "script.py", SCRIPT, str(folder), kept, str(seconds))
    wait_until(lambda: len(pids_in(folder)) == 2)
    return script, pids_in(folder)


@pytest.mark.integration
def test_workers_die_with_their_parent_however_busy_they_are(tmp_path):
    script, workers = start_script(tmp_path, "none", seconds=60.0)
    assert all(map(is_alive, workers))
    script.kill()
    script.communicate()
    wait_until(lambda: not any(map(is_alive, workers)), seconds=5)


@pytest.mark.integration
def test_ctrl_c_without_a_checkpoint_kills_the_workers(tmp_path):
    script, workers = start_script(tmp_path, "none")
    os.kill(script.pid, signal.SIGINT)
    _, err = script.communicate(timeout=240)
    assert script.returncode in (1, -signal.SIGINT)
    assert err.splitlines()[-1] == "KeyboardInterrupt"
    assert not any(map(is_alive, workers))


@pytest.mark.integration
def test_ctrl_c_with_a_checkpoint_can_be_resumed_with_the_same_bits(tmp_path):
    script, workers = start_script(tmp_path, "kept")
    time.sleep(0.5)
    os.kill(script.pid, signal.SIGINT)
    _, err = script.communicate(timeout=240)
    assert script.returncode in (1, -signal.SIGINT)
    assert "of 2 islands done; the checkpoint in" in err.splitlines()[-1]
    assert "scheduler.Interrupted" in err.splitlines()[-1]
    assert not any(map(is_alive, workers))
    checkpoint = open_checkpoint(tmp_path / "run", alone(2))
    assert checkpoint.open_batches()
    job = make_work(SAMPLERS["hmc"], categorical)
    islands = run_batches(
        job,
        checkpoint.open_batches(),
        executor=InProcess(fold=1),
        checkpoint=checkpoint,
        finished=checkpoint.finished(),
        progress=False,
    )
    assert same_bits(islands, drive(job, InProcess(fold=1)))
    assert max(island.report.attempts for island in islands) == 2
