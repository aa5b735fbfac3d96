"""A real Ray: same bits, killed workers, a lost machine, news, and nothing to be reached from afar.

Ray is imported as it stands: where it is missing, these tests fail, and are not skipped.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import ray
from islands.executors.pieces import (
    SAMPLERS,
    Deadly,
    Raising,
    Slow,
    alone,
    categorical,
    make_work,
    open_checkpoint,
    pids_in,
    same_bits,
    wait_until,
)

from sbmc.checks import BadInput
from sbmc.islands.executors import InProcess, Ray
from sbmc.islands.executors.ray_connection import import_ray
from sbmc.islands.scheduler import Interrupted, run_batches

pytestmark = [
    pytest.mark.integration,
    # Ray leaves files for the end of the process that Python complains of when they are collected.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning"),
]


def drive(job, executor, islands=2, **settings):
    return run_batches(job, alone(islands), executor=executor, progress=False, **settings)


@pytest.fixture(scope="module")
def local():
    """A local Ray, started as the executor starts one, for all tests of this file but the last."""
    import_ray()
    settings = Ray(workers=2)
    assert settings._connect(), "Ray ran before"
    yield settings
    ray.shutdown()


def descendants(pid: int) -> set[int]:
    """A process, its children and theirs."""
    found = {pid}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found |= descendants(int(child))
    return found


def listening(pids: set[int]) -> set[str]:
    """Addresses, as the kernel writes them, on which processes listen for others."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                name = os.readlink(link)
            except OSError:
                continue
            inodes |= {name[8:-1]} if name.startswith("socket:[") else set()
    addresses = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        rows = [line.split() for line in Path(table).read_text().splitlines()[1:]]
        addresses |= {r[1].split(":")[0] for r in rows if r[3] == "0A" and r[9] in inodes}
    return addresses


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells of sockets")
def test_a_local_cluster_listens_on_the_loopback_interface_alone(local):
    # All of Ray's processes, as long as none has left this process's tree.
    addresses = listening(descendants(os.getpid()))
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert addresses, "Ray listens somewhere"
    assert addresses <= loopback


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_same_bits_as_in_process(local, name):
    job = make_work(SAMPLERS[name])
    assert same_bits(drive(job, local, 3), drive(job, InProcess(fold=1), 3))
    assert ray.is_initialized(), "a Ray that was there before stays"


@pytest.mark.parametrize(("name", "kept"), [("hmc", False), ("hmc", True), ("smc", True)], ids=str)
def test_a_killed_worker_is_replaced_and_the_bits_stay(local, tmp_path, name, kept):
    expected = drive(make_work(SAMPLERS[name], categorical), InProcess(fold=1))
    job = make_work(SAMPLERS[name], Deadly(str(tmp_path)))
    checkpoint = open_checkpoint(tmp_path / "run", alone(2)) if kept else None
    islands = drive(job, local, checkpoint=checkpoint)
    assert (tmp_path / "killed-0").exists()
    assert same_bits(islands, expected)
    assert sorted(island.report.attempts for island in islands) == [1, 2]


def test_an_island_that_is_given_up_leaves_the_others(local, tmp_path):
    job = make_work(SAMPLERS["hmc"], Deadly(str(tmp_path)))
    expected = drive(make_work(SAMPLERS["hmc"], categorical), InProcess(fold=1))
    islands = drive(job, Ray(workers=1), retries=0)
    assert islands[0].report.outcome == "failed"
    assert "WorkerCrashedError" in islands[0].report.message
    assert same_bits(islands[1:], expected[1:])


def test_errors_of_the_likelihood_end_their_island_alone(local, tmp_path):
    job = make_work(SAMPLERS["hmc"], Raising(str(tmp_path), ArithmeticError, at=30))
    islands = drive(job, Ray(workers=1))
    assert [island.report.message for island in islands] == ["ArithmeticError: on purpose", ""]


def test_progress_is_reported_from_tasks(local, tmp_path):
    told = []
    job = make_work(SAMPLERS["hmc"], Slow(str(tmp_path), 0.02))
    with local.open(job, None, lambda batch, fields: told.append((batch, fields))) as session:
        # Whoever carries the news takes a while to start, and no island waits for that.
        for index in range(100):
            session.submit((index,))
            wait_until(lambda: session.wait(0.05))
            if told:
                break
    assert told, "no news"
    assert all(1 <= fields["done"] <= 6 and "acceptance" in fields for _, fields in told)
    assert {batch for batch, _ in told} <= {(i,) for i in range(index + 1)}


def test_ctrl_c_stops_tasks_at_their_next_place(local, tmp_path):
    (tmp_path / "pids").mkdir()
    job = make_work(SAMPLERS["hmc"], Slow(str(tmp_path / "pids"), 0.03))
    checkpoint = open_checkpoint(tmp_path / "run", alone(2), every=1e9)

    def press() -> None:
        wait_until(lambda: pids_in(tmp_path / "pids"))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(Interrupted):
        drive(job, local, checkpoint=checkpoint)
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


def test_what_no_machine_has_is_waited_for_only_where_the_cluster_may_grow(local, caplog):
    with caplog.at_level("WARNING", "sbmc"):
        Ray(gpus=64)._require_room(started=False)
    assert "an island needs gpus = 64" in caplog.text
    with pytest.raises(BadInput, match="`gpus` must be at most what a machine of the cluster has"):
        Ray(gpus=64)._require_room(started=True)


def test_a_cluster_without_a_limit_gets_twice_what_it_has_room_for(local):
    with replace(local, workers=None).open(make_work(SAMPLERS["hmc"]), None, print) as session:
        assert session.window == 4


def test_many_islands_more_than_the_window(local):
    job = make_work(SAMPLERS["hmc"])
    islands = drive(job, Ray(), 20)
    assert same_bits(islands, drive(job, InProcess(fold=1), 20))


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'sbmc\[ray\]'"):
        Ray(workers=1).open(make_work(SAMPLERS["hmc"]), None, print)


def test_a_lost_machine_costs_its_islands_an_attempt(tmp_path):
    """Two machines on one: the other one's islands are run again on this one."""
    from ray.cluster_utils import Cluster

    ray.shutdown()
    expected = drive(make_work(SAMPLERS["hmc"], categorical), InProcess(fold=1), 4)
    job = make_work(SAMPLERS["hmc"], Slow(str(tmp_path), 0.05))
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        other = cluster.add_node(num_cpus=1)
        raylet = other.all_processes["raylet"][0].process.pid

        def theirs() -> set[int]:
            return set(pids_in(tmp_path)) & descendants(raylet)

        def lose() -> None:
            wait_until(theirs)
            time.sleep(0.3)
            cluster.remove_node(other, allow_graceful=False)

        thread = threading.Thread(target=lose)
        thread.start()
        executor = Ray(address=cluster.address)
        islands = drive(job, executor, 4)
        thread.join()
        assert not ray.is_initialized(), "a connection that the executor made is ended"
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert same_bits(islands, expected)
    assert sum(island.report.attempts for island in islands) > 4
