"""Snapshots inside a pass over mini-batches, since a pass over many examples may take hours.

Between two batches a loop can stop as well as between two passes. What it needs besides, to go on
in the middle, is put into its snapshot under names that begin with `pass.`: the order of the data,
how many batches are done, and what the loop has noted since the pass began.
"""

from __future__ import annotations

import time

from sbmc.samplers.snapshot import Snapshot

# Batches are many and small: an offer after each of them would cost more than it is worth.
SECONDS_BETWEEN_OFFERS = 1.0
_PREFIX = "pass."


class Pace:
    """Says when it is time to offer a snapshot again."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def due(self) -> bool:
        """Whether so many seconds have gone by since the last time that it was."""
        now = time.monotonic()
        if now - self._last < SECONDS_BETWEEN_OFFERS:
            return False
        self._last = now
        return True


def with_begun_pass(snapshot: Snapshot, begun: Snapshot) -> Snapshot:
    """The snapshot of a loop that is in the middle of a pass.

    Args:
        snapshot: of the loop, as between two passes.
        begun: what the pass needs besides.
    """
    tensors = {_PREFIX + name: tensor for name, tensor in begun.tensors.items()}
    values = {_PREFIX + name: value for name, value in begun.values.items()}
    return Snapshot({**snapshot.tensors, **tensors}, {**snapshot.values, **values})


def begun_pass(snapshot: Snapshot | None) -> Snapshot | None:
    """What `with_begun_pass` was given; None if the snapshot is of the time between two passes.

    Examples:
        >>> begun_pass(with_begun_pass(Snapshot({}, {"epochs": 2}), Snapshot({}, {"batches": 7})))
        Snapshot(tensors={}, values={'batches': 7})
        >>> begun_pass(Snapshot({}, {"epochs": 2})) is None
        True
    """
    if snapshot is None or not any(name.startswith(_PREFIX) for name in snapshot.values):
        return None
    tensors, values = (
        {n.removeprefix(_PREFIX): v for n, v in part.items() if n.startswith(_PREFIX)}
        for part in snapshot
    )
    return Snapshot(tensors, values)
