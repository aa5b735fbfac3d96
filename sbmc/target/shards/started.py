"""The ranks that this process has started for itself, and who starts them.

They are kept between evaluations, since a process needs seconds to import torch. `fit` ends them
when it returns. Usually they are processes of this machine; a worker of a cluster has its cluster
start them.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from sbmc.log import logger
from sbmc.target.shards.group import Ranks
from sbmc.target.shards.local_ranks import LocalRanks
from sbmc.target.shards.settings import Shards


class StartedRanks(Protocol):
    """The other ranks of this process, and its end of their group."""

    shards: Shards
    ranks: Ranks

    @property
    def usable(self) -> bool:
        """Whether all are there, in step, and those of this process."""

    def close(self) -> None:
        """End all of them at once."""


_start: Callable[[Shards], StartedRanks] = LocalRanks
_running: StartedRanks | None = None


def started_ranks(shards: Shards) -> Ranks:
    """The ranks of this process, started if they are not there.

    Args:
        shards: how many.

    Raises:
        RankLost: one of them did not start.
    """
    global _running
    if _running is not None and (_running.shards != shards or not _running.usable):
        close_ranks()
    if _running is None:
        began = time.monotonic()
        _running = _start(shards)
        seconds = time.monotonic() - began
        logger.info("shards: %s ranks are ready after %.1f seconds", shards.ranks, seconds)
    return _running.ranks


@atexit.register
def close_ranks() -> None:
    """End the ranks that this process has started, if there are some."""
    global _running
    if _running is not None:
        running, _running = _running, None
        running.close()


@contextmanager
def started_by(start: Callable[[Shards], StartedRanks]) -> Iterator[None]:
    """Start ranks in another way than as processes of this machine.

    Args:
        start: starts them. At the end of the context they are ended.
    """
    global _start
    close_ranks()
    before, _start = _start, start
    try:
        yield
    finally:
        close_ranks()
        _start = before
