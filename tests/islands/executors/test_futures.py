"""Pools that a user has made: threads, processes, and broken ones."""

from __future__ import annotations

import os
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import forked
import pytest
import torch
from islands.executors.pieces import (
    SAMPLERS,
    Deadly,
    Slow,
    alone,
    categorical,
    make_work,
    open_checkpoint,
    same_bits,
)

from sbmc.checks import BadInput
from sbmc.islands.executors import Futures, InProcess
from sbmc.islands.executors.futures import _task
from sbmc.islands.executors.serialization import as_done, digest_of, pack_job
from sbmc.islands.scheduler import Interrupted, run_batches


def drive(job, executor, islands=3, **settings):
    return run_batches(job, alone(islands), executor=executor, progress=False, **settings)


@pytest.mark.parametrize("likelihood", ["categorical", categorical], ids=["fused", "in turns"])
@pytest.mark.parametrize("name", list(SAMPLERS))
def test_threads_give_the_same_bits_and_leave_torchs_threads_alone(name, likelihood):
    job = make_work(SAMPLERS[name], likelihood, threads=None)
    before = torch.get_num_threads()
    with ThreadPoolExecutor(2) as pool:
        islands = drive(job, Futures(pool))
        assert pool.submit(torch.get_num_threads).result() == before
    assert same_bits(islands, drive(job, InProcess(fold=1)))
    assert torch.get_num_threads() == before


def test_processes_give_the_same_bits_and_a_broken_pool_is_said_to_be_broken(tmp_path):
    with ProcessPoolExecutor(1, mp_context=forked.CONTEXT) as pool:
        for name in SAMPLERS:
            job = make_work(SAMPLERS[name], categorical)
            assert same_bits(drive(job, Futures(pool)), drive(job, InProcess(fold=1)))
        job = make_work(SAMPLERS["hmc"], Deadly(str(tmp_path)))
        with pytest.raises(RuntimeError, match="cannot make it again"):
            drive(job, Futures(pool))
    assert (tmp_path / "killed-0").exists()


class Inline(Executor):
    """A pool of the smallest kind, as a library might bring one; loses the first task."""

    def __init__(self) -> None:
        self.calls = 0

    def submit(self, function, /, *arguments, **named):
        self.calls += 1
        future: Future = Future()
        if self.calls == 1:
            future.set_exception(ConnectionError("worker is gone"))
        else:
            future.set_result(function(*arguments, **named))
        return future


def test_any_pool_will_do_and_a_lost_task_is_tried_again():
    pool = Inline()
    job = make_work(SAMPLERS["hmc"])
    islands = drive(job, Futures(pool))
    assert Futures(pool).workers is None
    assert same_bits(islands, drive(job, InProcess(fold=1)))
    assert [island.report.attempts for island in islands] == [2, 1, 1]


def test_threads_by_default():
    with ThreadPoolExecutor(1) as pool:
        assert Futures(pool).threads_each == torch.get_num_threads()
        assert Futures(pool, threads=5).threads_each == 5
    assert Futures(Inline()).threads_each == 1


@pytest.mark.parametrize("bad", [None, 3, ThreadPoolExecutor])
def test_something_else_is_refused(bad):
    with pytest.raises(BadInput, match=r"`executor` must be a concurrent.futures.Executor"):
        Futures(bad)


def test_ctrl_c_stops_tasks_at_their_next_place(tmp_path):
    import signal
    import threading

    (tmp_path / "pids").mkdir()
    job = make_work(SAMPLERS["hmc"], Slow(str(tmp_path / "pids"), 0.03, parent=0))
    checkpoint = open_checkpoint(tmp_path / "run", alone(3), every=1e9)

    def press() -> None:
        time.sleep(0.7)
        os.kill(os.getpid(), signal.SIGINT)

    with ThreadPoolExecutor(2) as pool:
        thread = threading.Thread(target=press)
        thread.start()
        with pytest.raises(Interrupted):
            drive(job, Futures(pool), checkpoint=checkpoint)
        thread.join()
    plain = make_work(SAMPLERS["hmc"], categorical)
    islands = run_batches(
        plain,
        checkpoint.open_batches(),
        executor=InProcess(fold=1),
        checkpoint=checkpoint,
        finished=checkpoint.finished(),
        progress=False,
    )
    assert same_bits(islands, drive(plain, InProcess(fold=1)))


def test_a_task_whose_session_is_gone_stops(tmp_path):
    job = make_work(SAMPLERS["hmc"], Slow(str(tmp_path), 0.03, parent=0))
    payload = pack_job(job, None)
    import socket

    token = socket.gethostname(), str(tmp_path / "never made")
    began = time.monotonic()
    done = as_done((0,), _task(payload, digest_of(payload), (0,), token))
    assert type(done.error).__name__ == "Stopped"
    assert time.monotonic() - began < 5
