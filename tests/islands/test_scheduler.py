"""The driver: what is tried again, what is given up, and that nothing is lost or run twice."""

from __future__ import annotations

import logging
import math
import os
import signal
import threading
from collections import Counter, deque
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from islands.executors.pieces import (
    SAMPLERS,
    Raising,
    alone,
    make_work,
    open_checkpoint,
    same_bits,
)

import sbmc
from sbmc.checks import BadInput
from sbmc.islands.checkpoints import CheckpointError
from sbmc.islands.executors import Done, Executor, InProcess, Session
from sbmc.islands.executors.contract import WorkerLost, run_in_worker
from sbmc.islands.island import Island, IslandReport
from sbmc.islands.job import Batch, progress_of
from sbmc.islands.scheduler import Interrupted, run_batches, run_islands
from sbmc.progress import SilentBar
from sbmc.samplers.auto_state import AutoRun


@dataclass(frozen=True)
class Scripted(Executor):
    """Runs batches in this process, unless its script says how they end.

    Args:
        script: batch -> what its attempts come to; None runs it.
        size: of the window.
    """

    script: dict[Batch, list[Any]] = field(default_factory=dict)
    size: int = 2
    name = "scripted"
    ran: Counter = field(default_factory=Counter)
    most: list[int] = field(default_factory=list)

    def open(self, job, checkpoint_files, report_progress):
        return _Scripted(self, job, checkpoint_files, report_progress)


class _Scripted(Session):
    def __init__(self, settings, job, checkpoint_files, report_progress) -> None:
        self.settings, self.arguments = settings, (checkpoint_files, report_progress)
        self.job, self.queue, self.window = job, deque(), settings.size
        self.script = {batch: list(ends) for batch, ends in settings.script.items()}

    def submit(self, batch):
        self.queue.append(batch)
        self.settings.most.append(len(self.queue))

    def wait(self, timeout):
        batch = self.queue.popleft()
        self.settings.ran[batch] += 1
        ends = self.script.get(batch)
        end = ends.pop(0) if ends else None
        if isinstance(end, Done):
            return [end]
        if isinstance(end, BaseException):
            return [Done(batch, error=end)]
        if end is not None:
            return [Done(batch, islands=[Island(IslandReport(i, end), None) for i in batch])]
        return [Done(batch, run_in_worker(self.job, batch, *self.arguments, lambda: False))]

    def stop(self):
        raise AssertionError("nobody pressed Ctrl-C")


def lost(batch: Batch) -> Done:
    return Done(batch, error=WorkerLost("its process ended by signal 9"), lost=True)


@pytest.fixture(scope="module")
def job():
    return make_work(SAMPLERS["hmc"])


@pytest.fixture(scope="module")
def undisturbed(job):
    return run_batches(job, alone(4), executor=InProcess(fold=1), progress=False)


def drive(job, executor, batches=None, **settings):
    batches = alone(4) if batches is None else batches
    return run_batches(job, batches, executor=executor, progress=False, **settings)


def attempts(islands: list[Island]) -> list[int]:
    return [island.report.attempts for island in islands]


def test_all_islands_come_in_order_and_no_more_are_under_way_than_the_window(job, undisturbed):
    executor = Scripted()
    islands = drive(job, executor, [(2,), (0,), (3,), (1,)])
    assert [island.report.index for island in islands] == [0, 1, 2, 3]
    assert same_bits(islands, undisturbed)
    assert max(executor.most) == 2
    assert attempts(islands) == [1, 1, 1, 1]


def test_a_lost_worker_costs_an_attempt_and_nothing_else(job, undisturbed):
    executor = Scripted({(1,): [lost((1,)), lost((1,))], (3,): [lost((3,))]})
    islands = drive(job, executor)
    assert same_bits(islands, undisturbed)
    assert attempts(islands) == [1, 3, 1, 2]
    assert executor.ran == {(0,): 1, (1,): 3, (2,): 1, (3,): 2}


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_an_island_is_given_up_after_so_many_retries(job, undisturbed, retries):
    executor = Scripted({(2,): [lost((2,))] * 9})
    islands = drive(job, executor, retries=retries)
    assert executor.ran[2,] == retries + 1
    assert islands[2].report.outcome == "failed"
    assert islands[2].report.message == "WorkerLost: its process ended by signal 9"
    assert islands[2].report.attempts == retries + 1
    assert islands[2].positions is None
    rest = [0, 1, 3]
    assert same_bits([islands[i] for i in rest], [undisturbed[i] for i in rest])


def test_what_the_work_raises_is_not_tried_again_without_a_checkpoint(job):
    executor = Scripted({(0,): [ZeroDivisionError("once")] * 2})
    islands = drive(job, executor)
    assert islands[0].report.message == "ZeroDivisionError: once"
    assert executor.ran[0,] == 1


def test_what_the_work_raises_is_tried_again_from_a_checkpoint(job, undisturbed, tmp_path):
    checkpoint = open_checkpoint(tmp_path, alone(4))
    executor = Scripted({(0,): [MemoryError("twice")] * 2, (1,): [OSError("always")] * 9})
    islands = drive(job, executor, checkpoint=checkpoint)
    assert same_bits([islands[0], *islands[2:]], [undisturbed[0], *undisturbed[2:]])
    assert executor.ran == {(0,): 3, (1,): 3, (2,): 1, (3,): 1}
    assert islands[1].report.message == "OSError: always"
    assert set(checkpoint.finished()) == {0, 2, 3}, "another day, the failed one may be tried again"


@pytest.mark.parametrize("outcome", ["failed", "non-finite"])
def test_failure_by_value_is_tried_again_from_a_checkpoint_alone(
    job, undisturbed, tmp_path, outcome
):
    script = {(0,): [outcome], (1,): [outcome] * 9}
    without = drive(job, Scripted(script))
    assert [island.report.outcome for island in without[:2]] == [outcome] * 2
    executor = Scripted(script)
    islands = drive(job, executor, checkpoint=open_checkpoint(tmp_path, alone(4)))
    assert executor.ran == {(0,): 2, (1,): 3, (2,): 1, (3,): 1}
    assert same_bits([islands[0]], [undisturbed[0]])
    assert islands[1].report.outcome == outcome


@pytest.mark.parametrize("outcome", ["stuck", "step-limit"])
def test_other_outcomes_are_final(job, tmp_path, outcome):
    executor = Scripted({(0,): [outcome] * 9})
    islands = drive(job, executor, checkpoint=open_checkpoint(tmp_path, alone(4)))
    assert executor.ran[0,] == 1
    assert islands[0].report.outcome == outcome


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("error", [RuntimeError, MemoryError, ValueError, ArithmeticError, OSError])
def test_a_fold_that_raises_is_run_island_by_island(
    job, undisturbed, tmp_path, error, kept, caplog
):
    checkpoint = open_checkpoint(tmp_path, [(0, 1, 2), (3,)]) if kept else None
    executor = Scripted({(0, 1, 2): [error("too large")], (1,): [error("at fault")] * 9})
    with caplog.at_level(logging.WARNING, "sbmc"):
        islands = drive(job, executor, [(0, 1, 2), (3,)], checkpoint=checkpoint)
    words = f"islands [0, 1, 2] failed as one batch ({error.__name__}: too large); they are now run"
    assert words in caplog.text
    assert executor.ran[0, 1, 2] == 1
    assert [island.report.outcome for island in islands] == [
        "completed",
        "failed",
        "completed",
        "completed",
    ]
    rest = [0, 2, 3]
    assert same_bits([islands[i] for i in rest], [undisturbed[i] for i in rest])


def test_a_fold_whose_worker_is_lost_is_tried_again_as_the_same_fold(job):
    fold = (0, 1, 2)
    executor = Scripted({fold: [lost(fold)] * 2})
    islands = drive(job, executor, [fold])
    assert executor.ran == {fold: 3}
    assert same_bits(islands, drive(job, InProcess(), [fold]))


def test_a_fold_that_kills_every_worker_is_broken_up(job, undisturbed):
    fold = (0, 1, 2)
    executor = Scripted({fold: [lost(fold)] * 9})
    islands = drive(job, executor, [fold])
    assert executor.ran == {fold: 3, (0,): 1, (1,): 1, (2,): 1}
    assert same_bits(islands, undisturbed[:3])


@pytest.mark.parametrize("error", [BadInput("no"), CheckpointError("full")])
def test_some_errors_stop_the_run_at_once(job, tmp_path, error):
    checkpoint = open_checkpoint(tmp_path, alone(4))
    executor = Scripted({(2,): [error]}, size=1)
    with pytest.raises(type(error), match=str(error)):
        drive(job, executor, checkpoint=checkpoint)
    assert set(checkpoint.finished()) == {0, 1}
    assert (3,) not in executor.ran


def test_finished_islands_are_not_run_again(job, undisturbed):
    executor = Scripted()
    finished = {1: undisturbed[1], 2: undisturbed[2]}
    islands = drive(job, executor, finished=finished)
    assert executor.ran == {(0,): 1, (3,): 1}
    assert same_bits(islands, undisturbed)
    assert islands[1] is undisturbed[1]


def test_nothing_left_to_do_opens_no_executor(job, undisturbed):
    class Forbidden(Executor):
        def open(self, job, checkpoint_files, report_progress):
            raise AssertionError("opened")

    finished = dict(enumerate(undisturbed))
    assert drive(job, Forbidden(), finished=finished) == undisturbed


def test_a_result_that_was_kept_before_its_worker_died_is_taken(job, undisturbed, tmp_path):
    checkpoint = open_checkpoint(tmp_path, alone(4))

    class LateDeath(_Scripted):
        def wait(self, timeout):
            (done,) = super().wait(timeout)
            return [lost(done.batch)]

    class Late(Scripted):
        def open(self, job, checkpoint_files, report_progress):
            return LateDeath(self, job, checkpoint_files, report_progress)

    executor = Late()
    assert same_bits(drive(job, executor, checkpoint=checkpoint), undisturbed)
    assert set(executor.ran.values()) == {1}


def test_a_fold_that_was_killed_while_its_islands_were_written_is_ended_as_a_fold(job, tmp_path):
    fold = (0, 1, 2)
    whole = drive(job, InProcess(), [fold])
    checkpoint = open_checkpoint(tmp_path, [fold])
    checkpoint.checkpoint_files().checkpointer(fold).begin()
    checkpoint.checkpoint_files().save_islands(whole[:1])
    executor = Scripted()
    islands = drive(job, executor, [fold], checkpoint=checkpoint, finished=checkpoint.finished())
    assert executor.ran == {fold: 1}
    assert same_bits(islands, whole)


def test_what_is_left_of_a_fold_that_was_broken_up_is_run_alone(job, undisturbed, tmp_path):
    checkpoint = open_checkpoint(tmp_path, [(0, 1, 2)])
    checkpoint.checkpoint_files().save_islands(undisturbed[:1])
    executor = Scripted()
    finished = checkpoint.finished()
    islands = drive(job, executor, [(0, 1, 2)], checkpoint=checkpoint, finished=finished)
    assert executor.ran == {(1,): 1, (2,): 1}
    assert same_bits(islands, undisturbed[:3])


@pytest.mark.parametrize("retries", [-1, 1.5, True, "2"])
def test_bad_retries_are_refused(job, retries):
    with pytest.raises(BadInput, match="`retries` must be a non-negative integer"):
        drive(job, InProcess(), retries=retries)


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_an_island_that_raises_goes_on_from_its_snapshot_with_the_same_bits(tmp_path, name):
    plain = make_work(SAMPLERS[name], Raising(str(tmp_path), RuntimeError, times=0))
    expected = run_batches(plain, alone(2), executor=InProcess(fold=1), progress=False)
    disturbed = make_work(SAMPLERS[name], Raising(str(tmp_path), RuntimeError, at=30, times=2))
    checkpoint = open_checkpoint(tmp_path / "run", alone(2))
    islands = drive(disturbed, InProcess(fold=1), alone(2), checkpoint=checkpoint)
    assert (tmp_path / "raised-1").exists()
    assert same_bits(islands, expected)
    assert sum(attempts(islands)) == 4
    assert not list((tmp_path / "run").glob("batch-*")), (
        "states are removed when islands have ended"
    )


def test_the_sampler_does_not_begin_anew_at_a_retry(tmp_path):
    def calls(at: int, **settings: Any) -> int:
        likelihood = Raising(str(tmp_path / str(at)), RuntimeError, at=at, times=1)
        (tmp_path / str(at)).mkdir()
        disturbed = make_work(SAMPLERS["hmc"], likelihood)
        drive(disturbed, InProcess(fold=1), alone(1), **settings)
        return likelihood.calls

    whole = calls(10**9)
    again = calls(whole - 10, checkpoint=open_checkpoint(tmp_path / "run", alone(1)))
    assert whole < again < 1.4 * whole


def test_run_islands_folds_and_takes_several_anchors_in_turn(job, undisturbed):
    settings = {"islands": 4, "particles": 3, "seed": 11, "progress": False}
    one = run_islands(job.sampler, job.target(0), job.start, fold=1, **settings)
    assert same_bits(one, undisturbed)
    two = run_islands(job.sampler, [job.target(0)] * 2, job.start, fold=1, **settings)
    assert same_bits(two, undisturbed)
    folded = run_islands(job.sampler, job.target(0), job.start, **settings)
    assert [island.report.index for island in folded] == [0, 1, 2, 3]


def test_folding_changes_nothing_but_rounding_for_one_step():
    from sbmc import HMC

    job = make_work(HMC(steps=1, leapfrog=3))
    one = drive(job, InProcess(fold=1))
    together = drive(job, InProcess(), [(0, 1, 2, 3)])
    for a, b in zip(one, together, strict=True):
        torch.testing.assert_close(a.positions, b.positions, rtol=1e-5, atol=1e-6)


class Press:
    """A likelihood that presses Ctrl-C at certain calls."""

    def __init__(self, *at: int) -> None:
        self.at, self.calls = at, 0

    def __call__(self, outputs, targets):
        from islands.executors.pieces import categorical

        self.calls += 1
        if self.calls in self.at:
            os.kill(os.getpid(), signal.SIGINT)
        return categorical(outputs, targets)


def test_ctrl_c_stops_cleanly_and_says_how_far_it_came(tmp_path):
    expected = drive(make_work(SAMPLERS["hmc"], Press()), InProcess(fold=1), alone(3))
    handler = signal.getsignal(signal.SIGINT)
    checkpoint = open_checkpoint(tmp_path, alone(3), every=1e9)
    press = Press(100)
    with pytest.raises(Interrupted, match="1 of 3 islands done") as caught:
        drive(make_work(SAMPLERS["hmc"], press), InProcess(fold=1), alone(3), checkpoint=checkpoint)
    assert (caught.value.done, caught.value.islands) == (1, 3)
    assert caught.value.path == str(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert signal.getsignal(signal.SIGINT) is handler
    assert (tmp_path / "batch-00001.safetensors").exists()
    again = Press()
    islands = drive(
        make_work(SAMPLERS["hmc"], again),
        InProcess(fold=1),
        checkpoint.open_batches(),
        checkpoint=checkpoint,
        finished=checkpoint.finished(),
    )
    assert same_bits(islands, expected)
    assert again.calls < 2 * press.calls


def test_the_bar_stays_where_it_was_after_ctrl_c(tmp_path, monkeypatch):
    shown = []

    class Recorder(SilentBar):
        def update(self, done, **fields):
            shown.append((done, fields))

    @contextmanager
    def record(*arguments, **options):
        yield Recorder()

    monkeypatch.setattr("sbmc.islands.scheduler.open_progress", record)
    monkeypatch.setattr("sbmc.islands.executors.contract.PROGRESS_INTERVAL", 0.0)
    checkpoint = open_checkpoint(tmp_path, alone(1), every=1e9)
    with pytest.raises(Interrupted):
        drive(make_work(SAMPLERS["hmc"], Press(60)), InProcess(), alone(1), checkpoint=checkpoint)
    amounts = [done for done, _ in shown]
    assert amounts == sorted(amounts)
    assert amounts[-1] > 0


def test_ctrl_c_twice_stops_at_once(tmp_path):
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt) as caught:
        drive(
            make_work(SAMPLERS["hmc"], Press(20, 21)),
            InProcess(fold=1),
            checkpoint=open_checkpoint(tmp_path, alone(4)),
        )
    assert not isinstance(caught.value, Interrupted)
    assert signal.getsignal(signal.SIGINT) is handler


def test_ctrl_c_without_a_checkpoint_is_a_keyboard_interrupt():
    with pytest.raises(KeyboardInterrupt) as caught:
        drive(make_work(SAMPLERS["hmc"], Press(20)), InProcess(fold=1))
    assert not isinstance(caught.value, Interrupted)


def test_other_threads_leave_signals_alone(job, undisturbed, tmp_path):
    checkpoint, found = open_checkpoint(tmp_path, alone(4)), []
    thread = threading.Thread(
        target=lambda: found.extend(drive(job, InProcess(fold=1), checkpoint=checkpoint))
    )
    thread.start()
    thread.join()
    assert same_bits(found, undisturbed)


def test_progress_counts_all_islands_and_what_was_done_before(job, undisturbed, capsys):
    finished = {0: undisturbed[0]}
    run_batches(job, alone(4), executor=Scripted(), progress=True, finished=finished)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "sampling: 24 steps to do, 6 of them done before"
    assert lines[-1].startswith("sampling: 24/24 steps, islands 4/4, ended after")


def test_the_display_sums_batches_that_are_under_way(job):
    shown: list[dict[str, Any]] = []

    class Bar:
        def update(self, done, **fields):
            shown.append({"done": done, **fields})

        def skip(self, amount):
            pass

        def close(self):
            pass

    from sbmc.islands.scheduler import _Run

    run = _Run(job, None, 2, {})
    run.add_batches([(0, 1), (2,)])
    run._progress = {
        (0, 1): {"done": 7, "through": 1, "epochs": 20, "acceptance": 0.5, "temperature": 0.3},
        (2,): {"done": 2, "through": 0, "epochs": 9, "acceptance": 0.8, "temperature": 0.1},
    }
    run._show(Bar())
    assert shown == [
        {
            "done": 9,
            "islands": "1/3",
            "lowest_temperature": 0.1,
            "epochs": 20,
            "acceptance": pytest.approx(0.6),
        }
    ]


def test_the_display_has_the_settling_figure_and_what_is_left_of_the_budget(job):
    shown: list[dict[str, Any]] = []

    class Bar:
        def update(self, done, **fields):
            shown.append({"done": done, **fields})

    from sbmc.islands.scheduler import _Run

    run = _Run(replace(job, sampler=sbmc.AutoHMC(epochs=50)), None, 2, {})
    run.add_batches([(0, 1), (2,)])
    early = {"done": 60, "through": 0, "epochs": 30, "settling": None}
    run._progress = {(0, 1): early, (2,): {**early, "done": 15}}
    run._show(Bar())
    run._progress = {(0, 1): {**early, "settling": 1.234}, (2,): {**early, "settling": 1.1}}
    run._show(Bar())
    run._progress = {(0, 1): {**early, "done": 100, "epochs": 75, "settling": 1.2}}
    run.ended = {2: None}
    run._show(Bar())
    assert shown == [
        {"done": 75, "islands": "0/3", "budget_left": "50 %"},
        {"done": 120, "islands": "0/3", "settling_figure": "1.23", "budget_left": "20 %"},
        {
            "done": 150,
            "islands": "1/3",
            "settling_figure": "1.20",
            "budget_left": "0 %, extended 1.5 times",
        },
    ]


def test_an_island_that_ended_early_has_done_all_and_one_that_is_extended_no_more():
    runs = [AutoRun(0.1, 4, epochs=epochs, settled=False) for epochs in (40, 30, 90)]
    runs[0].outcome = "completed"
    progress = progress_of(runs, "epochs", each=50)
    assert progress == {"done": 50 + 30 + 50, "through": 2, "epochs": 90, "settling": None}
    runs[2].values = torch.tensor([[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]).double()
    # B = 1 and W = 1/2.
    assert progress_of(runs, "epochs", each=50)["settling"] == pytest.approx(math.sqrt(3))
