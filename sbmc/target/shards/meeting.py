"""How the ranks of a group that is started here find each other: by a store that all can read."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import torch.distributed as dist

from sbmc.target.shards.group import RankLost

# Seconds that ranks have to start; importing torch from a slow disk takes some.
START = 300.0
LOOPBACK = "127.0.0.1"
_LOOK = 0.02


def say_ready(store: dist.Store, rank: int) -> None:
    """Tell rank 0 that this rank is there."""
    store.set(_ready(rank), "")


def wait_for_ranks(
    store: dist.Store,
    size: int,
    has_ended: Callable[[int], bool],
    ending: Callable[[int], str],
) -> None:
    """Wait until all ranks but 0 have said that they are there.

    Args:
        store: where they say so.
        size: of the group.
        has_ended: whether a rank has ended already.
        ending: how it has ended, in words; empty if it has not.

    Raises:
        RankLost: one of them died while it started, or did not start in time.
    """
    deadline = time.monotonic() + START
    names = [_ready(rank) for rank in range(1, size)]
    while not store.check(names):
        late = time.monotonic() > deadline
        for rank in range(1, size):
            if has_ended(rank) or (late and not store.check([_ready(rank)])):
                how = ending(rank) or f"it was not ready after {START:g} seconds"
                raise RankLost(
                    f"rank {rank} of {size} did not start ({how}); standard error has its messages."
                )
        time.sleep(_LOOK)


def join_group(store: dist.Store, rank: int, size: int, address: str) -> dist.ProcessGroupGloo:
    """Connect to all other ranks; when this returns, all are connected, and none needs the store.

    Args:
        store: through which they exchange their addresses.
        rank: of this process.
        size: of the group.
        address: of this machine, at which the other ranks reach it.

    Raises:
        RankLost: one of them was lost meanwhile.
    """
    options = dist.ProcessGroupGloo._Options()  # type: ignore[attr-defined]
    options._timeout = timedelta(seconds=START)
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=address)]
    try:
        group = dist.ProcessGroupGloo(store, rank, size, options)
        group.barrier().wait()  # type: ignore[attr-defined]
    except RuntimeError as error:
        raise RankLost(f"the {size} ranks could not be connected ({error}).") from error
    return group


def _ready(rank: int) -> str:
    return f"ready-{rank}"
