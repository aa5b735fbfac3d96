"""Independent pieces of work side by side, each on one of the threads that torch may use.

Inside an operation on small tensors, torch's threads spend more time waiting for each other than
they save. Pieces that need nothing of each other wait for nothing; and since each is computed by
one thread, its last bits do not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Barrier
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Apply a function to all items, as many at a time as `torch.get_num_threads()` says.

    Args:
        function: must be safe to run in several threads; autograd's modes are not handed down.
        items: what to apply it to.

    Returns:
        The results, in the order of the items, as they come. The first error is raised.

    Example:
        >>> list(side_by_side(lambda x: x + 1, [1, 2, 3]))
        [2, 3, 4]
    """
    threads = torch.get_num_threads()
    if threads == 1 or len(items) < 2:
        return map(function, items)
    return _pool(threads).map(function, items)


@contextmanager
def torch_threads(wanted: int | None) -> Iterator[None]:
    """Let torch use so many threads inside the block; None leaves them alone."""
    had = torch.get_num_threads()
    if wanted is None or wanted == had:
        yield
        return
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(had)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Workers in which torch uses no threads of its own; kept, since starting them takes time."""
    all_there = Barrier(threads)

    def begin() -> None:
        # Asked for the first time, torch gives a thread the number that all have; only what is set
        # after that is the thread's own.
        torch.get_num_threads()
        torch.set_num_threads(1)
        all_there.wait()

    pool = ThreadPoolExecutor(threads, "sbmc", initializer=begin)
    list(pool.map(bool, range(threads)))
    # The workers' setting is their own, but torch also keeps it for threads that are yet to come.
    torch.set_num_threads(threads)
    return pool
