"""How islands are run: by whom, in how much memory, how often they are kept and tried again.

Nothing of it decides a result, so nothing of it is a setting of a record.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from sbmc.checks import is_number, is_whole, require
from sbmc.islands.checkpoints import CheckpointAt
from sbmc.islands.checkpoints.options import EVERY
from sbmc.islands.executors import as_executor
from sbmc.islands.process_memory import parse_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from sbmc.islands.executors import Executor

# In the folder of a run.
CHECKPOINT = "checkpoint"
RETRIES = 2


@dataclass(frozen=True, kw_only=True)
class Execution:
    """What the command line says of it, checked.

    Args:
        executor: a name, as `fit` takes it; in process if neither it nor another option says more.
        workers: how many batches run at a time.
        address: of a Ray cluster.
        cpus: that Ray reserves for an island.
        gpus: that Ray reserves for an island.
        retries: how often an island that was lost is tried again.
        checkpoint_every: seconds between two writes of an island's place; 0 writes whenever it
            can; None keeps no checkpoint.
        memory_limit: bytes of each process that runs islands, or words such as "2GiB".
        chunk_size: examples that go through the network together; by rule if not given.

    Raises:
        BadInput: one breaks its rule, or is none that the executor has.

    Example:
        >>> Execution(workers=4).build()
        Processes(workers=4, threads=None)
        >>> Execution(executor="in-process", workers=2)
        Traceback (most recent call last):
        ...
        sbmc.checks.BadInput: `workers` must be left out with the executor in-process, but got 2.
    """

    executor: str | None = None
    workers: int | None = None
    address: str | None = None
    cpus: float | None = None
    gpus: float | None = None
    retries: int = RETRIES
    checkpoint_every: float | None = EVERY
    memory_limit: int | str | None = None
    chunk_size: int | None = None

    def __post_init__(self) -> None:
        good = is_whole(self.retries) and self.retries >= 0
        require(good, "retries", "a non-negative integer", self.retries)
        every = self.checkpoint_every
        good = every is None or (is_number(every) and every >= 0)
        require(good, "checkpoint_every", "a number of seconds from 0", every)
        if self.memory_limit is not None:
            parse_bytes(self.memory_limit)
        size = self.chunk_size
        good = size is None or (is_whole(size) and size >= 1)
        require(good, "chunk_size", "a positive integer", size)
        self.build()

    def build(self) -> Executor:
        """The executor's settings; nothing is started."""
        more = {"cpus": self.cpus, "gpus": self.gpus}
        more = {name: value for name, value in more.items() if value is not None}
        name = self.executor
        if name is None and more and self.workers is None:
            name = "ray"  # nobody else has them
        found: Any = as_executor(name, workers=self.workers, address=self.address)
        for option, value in more.items():
            has = hasattr(found, option)
            require(has, option, f"left out with the executor {found.name}", value)
        return replace(found, **more) if more else found

    def keeps(self) -> bool:
        """Whether there is a checkpoint."""
        return self.checkpoint_every is not None

    def at(self, folder: Path | None) -> CheckpointAt | None:
        """The checkpoint of a run in this folder, if there is to be one."""
        if folder is None or self.checkpoint_every is None:
            return None
        return CheckpointAt(folder / CHECKPOINT, self.checkpoint_every)

    def changed(self, **options: Any) -> Execution:
        """The same with those options that are given; those of another executor are dropped."""
        given = {name: value for name, value in options.items() if value is not None}
        kept = asdict(self)
        if {"executor", "address"} & set(given):
            kept |= dict.fromkeys(("executor", "workers", "address", "cpus", "gpus"))
        return Execution(**{**kept, **given})

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)
