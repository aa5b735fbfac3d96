"""Ranks that torchrun has started: rank 0 does the work, and the others serve it."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist

from sbmc.checks import Phrase, require
from sbmc.log import logger
from sbmc.model.threads import Lock
from sbmc.target.shards.group import RankLost, Ranks, packed, unpacked
from sbmc.target.shards.serving import serve
from sbmc.target.shards.settings import TORCHRUN, Shards
from sbmc.target.shards.started import close_ranks

Result = TypeVar("Result")

_active: Ranks | None = None
# Kept from one call to the next, since a group has threads and connections that stay.
_joined: Ranks | None = None
# The ranks that a process has started are ended with the function that they were started for. A
# second thread waits for that, or it would lose them in the middle of its own.
_ONE_FUNCTION = Lock()


def with_ranks(function: Callable[[], Result], shards: Shards | None) -> Result:
    """Run a function that evaluates shards, and end the ranks that were started for it.

    Args:
        function: what to run; by torchrun's ranks, on rank 0. Of several threads with ranks to
            start, one runs its function at a time.
        shards: the settings; None for one process.

    Returns:
        What the function returns, on every rank.

    Raises:
        BadInput: a number of ranks under torchrun, which has started them already.
    """
    if shards is None:
        return function()
    if shards.by_torchrun:
        return on_rank_zero(function, shards)
    rule = f"{TORCHRUN!r} in a script that torchrun has started, where each rank would start others"
    require(not dist.is_torchelastic_launched(), "shards", rule, shards.ranks)
    with _ONE_FUNCTION:
        try:
            return function()
        finally:
            close_ranks()


def torchrun_ranks() -> Ranks:
    """The ranks inside `on_rank_zero`.

    Raises:
        RankLost: one of them was lost before; torchrun has to start them again.
    """
    assert _active is not None, "an engine of torchrun's ranks is used outside on_rank_zero"
    if _active.broken:
        raise RankLost(
            "a rank was lost before, and only torchrun can start it again. With a `checkpoint`, "
            "the same command goes on from the last snapshot.",
            restartable=False,
        )
    return _active


def on_rank_zero(function: Callable[[], Result], shards: Shards) -> Result:
    """Run a function on rank 0, while the other ranks evaluate shards for it.

    Args:
        function: what to run. Where it is called inside itself, it is simply run.
        shards: the timeout; all ranks of torchrun take part.

    Returns:
        What the function returns, on every rank.

    Raises:
        BadInput: torchrun has not started this process.
        RankLost: a rank was lost.
        Exception: what the function raises, on every rank.
    """
    global _active
    if _active is not None:
        return function()
    ranks = _join(shards)
    device = f"cuda:{torch.cuda.current_device()}" if torch.cuda.is_available() else None
    if ranks.rank != 0:
        with _left_to_rank_zero():
            last = serve(ranks, device)
        error, result = unpacked(last, device)
        if error is not None:
            raise error
        return result
    _active = ranks
    try:
        result = function()
        answer = packed((None, result))
    except BaseException as error:
        if not ranks.broken:
            _end(ranks, _packed_error(error))
        raise
    finally:
        _active = None
    _end(ranks, answer)
    return result


@contextmanager
def _left_to_rank_zero() -> Iterator[None]:
    """Ignore Ctrl-C, of which torchrun tells every rank.

    Rank 0 needs the others until it has saved its snapshot, and then tells them to end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python gives signals to the main thread alone
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        # None if the handler was not set from Python; it cannot be set again then.
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _join(shards: Shards) -> Ranks:
    global _joined
    if _joined is not None and not _joined.broken and _joined.timeout == shards.timeout:
        _joined.loaded = None  # at the end of a call the other ranks forget their shards
        return _joined
    launched = dist.is_initialized() or all(n in os.environ for n in ("RANK", "WORLD_SIZE"))
    rule = "a number, or 'torchrun' in a script that torchrun has started"
    require(launched, "shards", rule, Phrase(f"{TORCHRUN!r} in a process of its own"))
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    if not dist.is_initialized():
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
        # Threads of a group that is still there when Python ends would abort the process.
        atexit.register(_leave)
    # A group of its own, so that messages of the script's training cannot be mixed up with ours.
    group = dist.new_group(timeout=timedelta(seconds=shards.timeout))
    _joined = Ranks(group, shards.timeout, restartable=False)
    return _joined


def _leave() -> None:
    global _joined
    _joined = None
    if dist.is_initialized():
        dist.destroy_process_group()


def _end(ranks: Ranks, answer: bytes) -> None:
    """Send the last message, and let the other ranks go on with their script."""
    try:
        ranks.end(answer)
    except RankLost as error:
        # The result is here, and it is complete.
        logger.warning("%s", error)


def _packed_error(error: BaseException) -> bytes:
    try:
        data = packed((error, None))
        unpacked(data)  # many classes of errors can be packed, and not be made again
        return data
    except Exception:
        return packed((RuntimeError(f"{type(error).__name__}: {error}"), None))
