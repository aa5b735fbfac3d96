"""Independent pieces of work side by side, each on one of the threads that torch may use.

Inside an operation on small tensors, torch's threads spend more time waiting for each other than
they save. Pieces that need nothing of each other wait for nothing; and since each is computed by
one thread, its last bits do not depend on how many there are.

What torch does inside an operation is another matter: its OpenMP threads wait for each other by
spinning, and on a machine with other work each such wait can take milliseconds. Where operations
are small, each is therefore computed by the thread that asks for it; see `threads_for`.

A number of threads that is set here holds for the thread that sets it, and for no other.

Threads do not survive a fork, and neither do OpenMP's: a child that computes with several of them
waits for ever for those that its parent had. A forked child therefore computes with one thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import TypeVar
from weakref import WeakSet

import torch

from sbmc.log import logger

Item = TypeVar("Item")
Result = TypeVar("Result")


class Lock:
    """A lock that may be copied and pickled with what it guards, and that is free after a fork.

    The same thread may take it twice. A copy is a lock of its own.

    Examples:
        >>> import copy
        >>> with (lock := Lock()), copy.copy(lock):
        ...     print("both are taken")
        both are taken
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _LOCKS.add(self)

    def renew(self) -> None:
        """Forget who has it: in a forked child, the thread that had it is gone."""
        self._lock = threading.RLock()

    def __enter__(self) -> Lock:
        self._lock.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Lock], tuple[()]]:
        return Lock, ()


# Multiplications of one evaluation, below which one thread is done before two have agreed on who
# does what; and for evaluations that torch would split operation by operation, which costs more.
SMALL_WORK, SMALL_WORK_WITHIN = 2**23, 2**25
# Numbers in the positions of all particles, below which arithmetic on them is not worth splitting.
SMALL_POSITIONS = 2**20

_LOCKS: WeakSet[Lock] = WeakSet()
_POOLS: dict[int, ThreadPoolExecutor] = {}
_POOLS_LOCK, _SETTING_LOCK = Lock(), Lock()


class _Own(threading.local):
    """What a thread has chosen for itself.

    Attributes:
        pieces: how many pieces run side by side; None for as many as torch has threads.
    """

    pieces: int | None = None


_own = _Own()


class _Forked:
    """Whether this process is a forked child, and what it does about its threads.

    Attributes:
        threads: what torch had when the child was forked; None if nothing was forked, or if the
            child has been looked at.
        alone: whether this process keeps to one thread.
    """

    threads: int | None = None
    alone: bool = False


def side_by_side(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Apply a function to all items, as many at a time as `thread_count()` says.

    Args:
        function: must be safe to run in several threads; autograd's modes are not handed down.
        items: what to apply it to.

    Returns:
        The results, in the order of the items, as they come. The first error is raised.

    Examples:
        >>> list(side_by_side(lambda x: x + 1, [1, 2, 3]))
        [2, 3, 4]
    """
    threads = thread_count()
    if threads == 1 or len(items) < 2:
        return map(function, items)
    return _pool(threads).map(function, items)


def even_chunks(items: int, chunks: int) -> list[slice]:
    """Slices of about the same size, at most `chunks` of them, that cover so many items.

    Examples:
        >>> even_chunks(5, 2)
        [slice(0, 2, None), slice(2, 5, None)]
    """
    chunks = max(1, min(chunks, items))
    return [slice(items * i // chunks, items * (i + 1) // chunks) for i in range(chunks)]


@contextmanager
def torch_threads(wanted: int | None) -> Iterator[None]:
    """Let torch use so many threads inside the block; None leaves them alone."""
    keep_to_one_thread_after_a_fork()
    had = torch.get_num_threads()
    if _Forked.alone and wanted is not None and wanted > 1:
        logger.warning(
            "%d threads were asked for in a forked child, which computes with one; the last bits "
            "of a result may depend on it",
            wanted,
        )
        wanted = 1
    if wanted is None or (wanted == had and _own.pieces is None):
        yield
        return
    with _set(wanted, None):
        yield


@contextmanager
def threads_for(
    work: int, positions: int, *, apart: bool, small: int | None = None
) -> Iterator[None]:
    """Use as many threads inside the block as what is done there is worth, and no more than before.

    One thread does a small evaluation. Otherwise pieces run side by side as before; but if the
    positions are few, too, no operation is split among OpenMP's threads.

    Args:
        work: multiplications of one evaluation.
        positions: numbers in the positions of all particles.
        apart: whether evaluations are cut into pieces that run side by side. If not, threads inside
            an operation are all that there are.
        small: multiplications that one thread does; by rule if not given.
    """
    usual = SMALL_WORK if apart else SMALL_WORK_WITHIN
    if work <= (usual if small is None else small):
        with torch_threads(1):
            yield
    elif apart and positions <= SMALL_POSITIONS and torch.get_num_threads() > 1:
        with _set(1, thread_count()):
            yield
    else:
        yield


def thread_count() -> int:
    """How many pieces of work run side by side in this thread's name.

    Examples:
        >>> with torch_threads(2), threads_for(2**30, 10, apart=True):
        ...     thread_count(), torch.get_num_threads()
        (2, 1)
    """
    return torch.get_num_threads() if _own.pieces is None else _own.pieces


@contextmanager
def _set(threads: int, pieces: int | None) -> Iterator[None]:
    had, had_pieces = torch.get_num_threads(), _own.pieces
    _set_own_threads(threads)
    _own.pieces = pieces
    try:
        yield
    finally:
        _own.pieces = had_pieces
        _set_own_threads(had)


def _set_own_threads(threads: int) -> None:
    """Set torch's threads for this thread alone."""
    if threads == torch.get_num_threads():
        return
    # Torch also keeps the number for threads that are yet to come. Only a thread that has not asked
    # before can see that number, or set it and leave everybody's own as it is.
    with _SETTING_LOCK:
        for_others = _in_a_new_thread(torch.get_num_threads)
        torch.set_num_threads(threads)
        _in_a_new_thread(lambda: torch.set_num_threads(for_others))


def _in_a_new_thread(function: Callable[[], Result]) -> Result:
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def keep_to_one_thread_after_a_fork() -> None:
    """Have torch use one thread in a child that was forked while it had several.

    A child that has chosen a number of its own since the fork keeps it.
    """
    if _Forked.threads is None:
        return
    if _Forked.threads > 1 and torch.get_num_threads() == _Forked.threads:
        logger.info(
            "this process was forked: torch computes with one thread here instead of %d, since "
            "threads of the parent are gone; call torch.set_num_threads in the child to choose",
            _Forked.threads,
        )
        torch.set_num_threads(1)
        _Forked.alone = True
    _Forked.threads = None


def _pool(threads: int) -> ThreadPoolExecutor:
    """Workers in which torch uses no threads of its own; kept, since starting them takes time."""
    with _POOLS_LOCK:
        if threads not in _POOLS:
            _POOLS[threads] = _start_pool(threads)
        return _POOLS[threads]


def _start_pool(threads: int) -> ThreadPoolExecutor:
    all_there = threading.Barrier(threads)

    def begin() -> None:
        # Asked for the first time, torch gives a thread the number that all have; only what is set
        # after that is the thread's own.
        torch.get_num_threads()
        torch.set_num_threads(1)
        all_there.wait()

    pool = ThreadPoolExecutor(threads, "sbmc", initializer=begin)
    with _SETTING_LOCK:
        for_others = _in_a_new_thread(torch.get_num_threads)
        list(pool.map(bool, range(threads)))
        _in_a_new_thread(lambda: torch.set_num_threads(for_others))
    return pool


def _after_fork_in_child() -> None:
    for lock in list(_LOCKS):
        lock.renew()
    _POOLS.clear()
    _Forked.threads = torch.get_num_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
