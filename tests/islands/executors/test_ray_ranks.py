"""Islands of several ranks on a real Ray: same bits, killed ranks, lost machines, free places."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import ray
import torch
from islands.executors.pieces import (
    SAMPLERS,
    Slow,
    alone,
    categorical,
    make_work,
    open_checkpoint,
    pids_in,
    same_bits,
    wait_until,
)
from ray.util.placement_group import placement_group_table
from torch import Tensor, nn

import sbmc
from sbmc.checks import BadInput
from sbmc.islands.executors import InProcess, Ray
from sbmc.islands.executors.ray_connection import import_ray
from sbmc.islands.scheduler import run_batches
from sbmc.target.shards import ShardedEngine, Shards, started

pytestmark = [
    pytest.mark.integration,
    # Ray leaves files for the end of the process that Python complains of when they are collected.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning"),
]

RANKS = 2
RANK = "ray::serve_rank"  # how Ray calls a process that serves rank 0


@pytest.fixture(scope="module")
def local():
    """A local Ray with room for two islands of two ranks each."""
    import_ray()
    settings = Ray(workers=2, cpus=0.5)
    assert settings._connect(RANKS), "Ray ran before"
    yield settings
    ray.shutdown()


@pytest.fixture(autouse=True)
def _no_rank_of_this_process_is_left():
    yield
    started.close_ranks()


def in_ranks(job, ranks=RANKS, **settings):
    return replace(job, engine=ShardedEngine(job.engine, Shards(ranks, **settings)))


def drive(job, executor, islands=2, **settings):
    return run_batches(job, alone(islands), executor=executor, progress=False, **settings)


def title_of(pid: int | str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]
    except OSError:
        return ""


@dataclass
class DeadlyRank:
    """Kills processes of some title at a call, as often as there are numbers to claim."""

    folder: str
    title: str
    at: int = 40
    calls: int = 0

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        self.calls += 1
        if self.calls >= self.at and title_of("self") == self.title:
            marker = Path(self.folder, "killed")
            if not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return categorical(outputs, targets)


def places_in_use() -> int:
    return sum(table["state"] != "REMOVED" for table in placement_group_table().values())


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_same_bits_as_ranks_of_this_machine_and_all_places_are_given_back(local, name):
    job = in_ranks(make_work(SAMPLERS[name]))
    expected = drive(job, InProcess(fold=1), 5)
    assert same_bits(drive(job, local, 5), expected)
    wait_until(lambda: places_in_use() == 0)
    wait_until(lambda: ray.available_resources().get("CPU", 0) == 2.0)


@pytest.mark.parametrize(("title", "kept"), [(RANK, False), (RANK, True), ("ray::_task", True)])
def test_a_killed_rank_costs_its_island_an_attempt(local, tmp_path, title, kept):
    expected = drive(in_ranks(make_work(SAMPLERS["hmc"], categorical)), InProcess(fold=1))
    job = in_ranks(make_work(SAMPLERS["hmc"], DeadlyRank(str(tmp_path), title)))
    checkpoint = open_checkpoint(tmp_path / "run", alone(2)) if kept else None
    islands = drive(job, local, checkpoint=checkpoint)
    assert (tmp_path / "killed").exists()
    assert same_bits(islands, expected)
    assert sorted(island.report.attempts for island in islands) == [1, 2]


def test_a_killed_rank_is_named_where_its_island_is_given_up(local, tmp_path):
    job = in_ranks(make_work(SAMPLERS["hmc"], DeadlyRank(str(tmp_path), RANK)))
    expected = drive(in_ranks(make_work(SAMPLERS["hmc"], categorical)), InProcess(fold=1))
    islands = drive(job, replace(local, workers=1), retries=0)
    assert islands[0].report.outcome == "failed"
    message = islands[0].report.message
    assert "rank 1 of 2 was lost (its task of Ray ended by WorkerCrashedError" in message
    assert same_bits(islands[1:], expected[1:])


def test_an_error_in_a_rank_ends_its_island_alone(local, tmp_path):
    job = in_ranks(make_work(SAMPLERS["hmc"], FailingRank(str(tmp_path))))
    first, second = drive(job, replace(local, workers=1), retries=0)
    assert "rank 1 of 2: ArithmeticError: on purpose" in first.report.message
    assert second.report.outcome == "completed"


@dataclass
class FailingRank:
    """Raises once, in the process of a rank."""

    folder: str

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        marker = Path(self.folder, "failed")
        if title_of("self") == RANK and not marker.exists():
            marker.touch()
            raise ArithmeticError("on purpose")
        return categorical(outputs, targets)


def test_processes_of_ranks_are_used_again(local, tmp_path):
    job = in_ranks(make_work(SAMPLERS["hmc"], Slow(str(tmp_path), 0.0)))
    drive(job, replace(local, workers=1), 6)
    # Six islands one after another: twelve ranks, in the few processes that Ray keeps.
    assert len(pids_in(tmp_path)) < 9


def test_fit_puts_the_ranks_of_its_islands_on_ray(local):
    torch.manual_seed(0)
    x = torch.randn(60, 3)
    data, net = (x, (x[:, 0] > 0).long()), nn.Linear(3, 2)

    def fit(**compute):
        options = {"s": 0.1, "sampler": sbmc.HMC(steps=4), "particles": 3, "islands": 2}
        return sbmc.fit(net, data, **options, compute=sbmc.Compute(**compute), progress=False)

    here, there = fit(shards=RANKS), fit(shards=RANKS, executor=local)
    assert torch.equal(there.positions, here.positions)
    assert there.settings["shards"] == RANKS


def test_a_cluster_without_room_for_all_ranks_is_refused_or_said_to_be_waited_for(local, caplog):
    with caplog.at_level("WARNING", "sbmc"):
        Ray(cpus=0.5)._require_room(started=False, ranks=5)
    assert "an island has 5 ranks of cpus = 0.5, and the cluster has room for 4" in caplog.text
    rule = "`cpus` must be so few that the cluster has room for the 5 ranks of an island"
    with pytest.raises(BadInput, match=rule):
        Ray(cpus=0.5)._require_room(started=True, ranks=5)


def test_machines_each_with_a_rank_and_one_that_is_lost(tmp_path):
    """Three machines on one, with a CPU each: ranks of an island are on two of them."""
    from ray.cluster_utils import Cluster

    ray.shutdown()
    sampler = SAMPLERS["hmc"]
    expected = drive(in_ranks(make_work(sampler, categorical)), InProcess(fold=1), 3)
    job = in_ranks(make_work(sampler, Slow(str(tmp_path), 0.05)))
    head = {"num_cpus": 1, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        others = [cluster.add_node(num_cpus=1) for _ in range(2)]
        raylets = [each.all_processes["raylet"][0].process.pid for each in others]

        def at_work(raylet: int) -> bool:
            return any(_parent(pid) == raylet for pid in pids_in(tmp_path))

        def lose() -> None:
            wait_until(lambda: any(map(at_work, raylets)))
            lost = next(node for node, pid in zip(others, raylets, strict=True) if at_work(pid))
            cluster.remove_node(lost, allow_graceful=False)

        thread = threading.Thread(target=lose)
        thread.start()
        islands = drive(job, Ray(address=cluster.address), 3)
        thread.join()
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert same_bits(islands, expected)
    assert sum(island.report.attempts for island in islands) > 3


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1
