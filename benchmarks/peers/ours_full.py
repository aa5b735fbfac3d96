"""sbmc on all data at once, beside its own mini-batches: HMC, whatever the row's algorithm is."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.peers.ours import Ours
from benchmarks.peers.protocol import Task, serve


class FullBatch(Ours):
    """The same target, moved by HMC."""

    def __init__(self, task: Task) -> None:
        super().__init__(replace(task, algorithm="hmc"))


if __name__ == "__main__":
    serve(FullBatch)
