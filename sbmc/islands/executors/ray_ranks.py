"""The ranks of an island as tasks of Ray, each in the place that a placement group keeps for it.

A placement group reserves the places of all ranks of an island at once, on one machine or on
several, so that no island waits for a rank while it keeps others waiting. Rank 0 is the island's
own task. It starts the tasks of the other ranks, which find it through a store of
`torch.distributed` at the address that Ray has for its machine. A task of a rank ends when rank 0
says so, or when the connection breaks.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from sbmc.target.shards import Shards
from sbmc.target.shards.group import RankLost, Ranks, packed
from sbmc.target.shards.meeting import join_group, say_ready, wait_for_ranks
from sbmc.target.shards.serving import serve

# Seconds in which Ray says how a task has ended whose connection is broken.
_LAST_WORDS = 5.0


def place_ranks(ranks: int, cpus: float, gpus: float) -> Any:
    """A placement group with a place for each rank of an island.

    Ray puts them on as few machines as it can. The tasks of a group that has no room yet wait.

    Args:
        ranks: of an island.
        cpus: of each rank.
        gpus: of each rank.
    """
    from ray.util.placement_group import placement_group

    place = {"CPU": cpus} | ({"GPU": gpus} if gpus else {})
    return placement_group([dict(place) for _ in range(ranks)], strategy="PACK")


def in_place(group: Any, rank: int, cpus: float, gpus: float) -> dict[str, Any]:
    """Options of a task that takes the place of a rank."""
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank)
    return {
        "num_cpus": cpus,
        "num_gpus": gpus,
        "max_retries": 0,  # the scheduler counts retries, of the island as a whole
        "scheduling_strategy": strategy,
    }


class RayRanks:
    """The other ranks of this task.

    Args:
        shards: how many, and how long to wait for one.
        cpus: of each rank, and so its threads.
        gpus: of each rank.

    Raises:
        RankLost: one of them died while it started, or did not start in time.
    """

    def __init__(self, shards: Shards, cpus: float, gpus: float) -> None:
        import ray
        from ray.util.placement_group import get_current_placement_group

        self.shards = shards
        size, threads = int(shards.ranks), shards.threads or max(1, int(cpus))
        address, group = ray.util.get_node_ip_address(), get_current_placement_group()
        self._store = _store_of(address, size)
        arguments = address, self._store.port, size, shards.timeout, threads, gpus > 0
        task: Any = ray.remote(serve_rank)
        self._tasks = [
            task.options(**in_place(group, rank, cpus, gpus)).remote(rank, *arguments, sys.path)
            for rank in range(1, size)
        ]
        try:
            wait_for_ranks(self._store, size, self._has_ended, self.ending)
            joined = join_group(self._store, 0, size, address)
            self.ranks = Ranks(joined, shards.timeout, self.ending, threads=threads)
        except BaseException:
            self._cancel()
            raise

    def _has_ended(self, rank: int) -> bool:
        import ray

        return bool(ray.wait([self._tasks[rank - 1]], timeout=0)[0])

    def ending(self, rank: int) -> str:
        """How the task of a rank has ended, in words; empty if it has not."""
        import ray
        from ray.exceptions import GetTimeoutError, RayError

        try:
            ray.get(self._tasks[rank - 1], timeout=_LAST_WORDS)
        except GetTimeoutError:
            return ""
        except RayError as error:
            lines = str(error).strip().splitlines() or [""]
            return f"its task of Ray ended by {type(error).__name__}: {lines[0]}"
        return "its task of Ray ended"

    @property
    def usable(self) -> bool:
        """Whether all are there, and in step."""
        import ray

        ended, _ = ray.wait(self._tasks, timeout=0)  # one call: every evaluation asks
        return not ended and not self.ranks.broken

    def close(self) -> None:
        """Let the other tasks end, so that their processes can be used again."""
        if not self.usable:
            self._cancel()
            return
        try:
            self.ranks.end(packed(None))
        except RankLost:  # what they were for is done
            self._cancel()

    def _cancel(self) -> None:
        import ray

        for task in self._tasks:
            ray.cancel(task, force=True)


def serve_rank(
    rank: int,
    address: str,
    port: int,
    size: int,
    timeout: float,
    threads: int,
    on_gpu: bool,
    paths: Sequence[str],
) -> None:
    """What the task of a rank does, until rank 0 says that there is nothing more.

    Args:
        rank: its number.
        address: of rank 0's machine.
        port: of rank 0's store.
        size: of the group.
        timeout: seconds in which a rank has to answer.
        threads: that torch may use.
        on_gpu: whether the task has a GPU.
        paths: where rank 0 looks for modules.
    """
    import ray

    # At the end, so that modules of this machine come first.
    sys.path += [path or os.getcwd() for path in paths if path not in sys.path]
    torch.set_num_threads(threads)
    store = dist.TCPStore(address, port, size, is_master=False, wait_for_workers=False)
    say_ready(store, rank)
    group = join_group(store, rank, size, ray.util.get_node_ip_address())
    try:
        serve(Ranks(group, timeout), "cuda:0" if on_gpu else None)
    except RankLost:
        # Rank 0 says so, or is gone. A group that has lost a rank may wait for it when it is taken
        # down, so the process ends here.
        os._exit(1)


def _store_of(address: str, size: int) -> dist.TCPStore:
    """A store in this process, which others reach at this address and at no other."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind((address, 0))
    listener.listen(size)
    port = listener.getsockname()[1]
    return dist.TCPStore(
        address,
        port,
        size,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
