"""The settings of ranks: how many, who starts them, and how long to wait for one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sbmc.checks import is_number, is_whole, require, require_count

# The ranks that torchrun has started.
TORCHRUN = "torchrun"
# A broken connection is noticed at once. This is for a rank that hangs, or whose network does.
TIMEOUT = 600.0
# More processes of one machine than anyone can mean.
MOST_RANKS = 4096
# What `torch.distributed` can count: it has whole milliseconds, and fails above some years.
LEAST_TIMEOUT, LONGEST_TIMEOUT = 0.001, 365 * 24 * 3600


@dataclass(frozen=True)
class Shards:
    """Divide the data of an island among the ranks of a group, and add up what they compute.

    Args:
        ranks: how many processes of this machine, which `fit` starts, itself one of them; or
            `"torchrun"` for those that torchrun has started, on one machine or on several.
        timeout: seconds in which a rank has to answer. One that does not counts as lost. An
            evaluation of all data must take less.
        threads: how many threads torch may use in each rank. By default the ranks of this machine
            divide those of this process; those of torchrun keep their own.

    Raises:
        BadInput: a value breaks its rule.

    Examples:
        >>> Shards(4)
        Shards(ranks=4, timeout=600.0, threads=None)
        >>> Shards(0)
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `shards` must be a positive number of processes, or 'torchrun' for \
the ranks that torchrun has started, but got 0.
    """

    ranks: int | str
    timeout: float = TIMEOUT
    threads: int | None = None

    def __post_init__(self) -> None:
        rule = (
            "a positive number of processes, or 'torchrun' for the ranks that torchrun has started"
        )
        named = isinstance(self.ranks, str) and self.ranks == TORCHRUN
        counted = is_whole(self.ranks) and 1 <= int(self.ranks) <= MOST_RANKS
        require(named or counted, "shards", rule, self.ranks)
        good = is_number(self.timeout) and LEAST_TIMEOUT <= self.timeout <= LONGEST_TIMEOUT
        rule = f"a number of seconds from {LEAST_TIMEOUT:g} to {LONGEST_TIMEOUT:,}, which is a year"
        require(good, "timeout", rule, self.timeout)
        require_count("threads", self.threads, optional=True)

    @property
    def by_torchrun(self) -> bool:
        """Whether the ranks are there already, by torchrun."""
        return self.ranks == TORCHRUN

    @property
    def threads_each(self) -> int:
        """Threads that torch may use in a rank."""
        here = torch.get_num_threads()
        shared = here if self.by_torchrun else max(1, here // int(self.ranks))
        return self.threads or shared


def as_shards(value: Any) -> Shards | None:
    """The settings that the option `shards` stands for; None for one process.

    Examples:
        >>> as_shards(2)
        Shards(ranks=2, timeout=600.0, threads=None)
    """
    return value if value is None or isinstance(value, Shards) else Shards(value)
