"""Commands under torchrun: rank 0 runs them and shows results, the others serve it in silence."""

from __future__ import annotations

import os
from collections.abc import Callable

from sbmc.target.shards import as_shards, on_rank_zero


def on_first_rank(command: Callable[[], int], shards: int | str | None) -> int:
    """Run a command on rank 0, if its islands have torchrun's ranks; else simply run it.

    Args:
        command: returns an exit code.
        shards: the option of that name.

    Returns:
        The exit code, on every rank.

    Raises:
        Exception: what the command raises, on rank 0 alone, so that it is shown once.
    """
    settings = as_shards(shards)
    if settings is None or not settings.by_torchrun:
        return command()
    try:
        return on_rank_zero(command, settings)
    except Exception:
        if os.environ.get("RANK", "0") == "0":
            raise
        return 1
