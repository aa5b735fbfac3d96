"""How islands are run: the executor, its memory, checkpoints and retries.

No option of these changes a result, so none of them is a setting of a record.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from sbmc.checks import BadInput, is_number, is_whole, require
from sbmc.islands.checkpoints import CheckpointAt
from sbmc.islands.checkpoints.options import EVERY
from sbmc.islands.executors import as_executor
from sbmc.islands.process_memory import parse_bytes
from sbmc.target.shards import as_shards

if TYPE_CHECKING:
    from pathlib import Path

    from sbmc.islands.executors import Executor

# In the folder of a run.
CHECKPOINT = "checkpoint"
RETRIES = 2


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How the islands of a run are computed.

    Args:
        executor: a name, as `fit` takes it. The default is in process, unless another option
            belongs to one of the other executors.
        workers: how many batches of islands run at a time.
        address: of a Ray cluster.
        cpus: CPUs that Ray reserves for an island.
        gpus: GPUs that Ray reserves for an island.
        shards: processes of an island, each with a part of the data; or "torchrun".
        retries: how often an island that was lost is tried again.
        checkpoint_every: seconds between two snapshots of an island; 0 saves every snapshot that
            the sampler offers; None saves no checkpoint.
        memory_limit: bytes of each process that runs islands, or text such as "2GiB".
        chunk_size: examples that go through the network together; the library chooses it if it is
            not given.

    Raises:
        BadInput: an option breaks its rule, or the executor has no such option.

    Examples:
        >>> Execution(workers=4).build_executor()
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
    shards: int | str | None = None
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
        as_shards(self.shards)
        self.build_executor()

    def build_executor(self) -> Executor:
        """The executor with its options; nothing is started."""
        reserved = {"cpus": self.cpus, "gpus": self.gpus}
        reserved = {name: value for name, value in reserved.items() if value is not None}
        name = self.executor
        if name is None and reserved and self.workers is None:
            name = "ray"  # the only executor that reserves CPUs and GPUs
        executor: Any = as_executor(name, workers=self.workers, address=self.address)
        for option, value in reserved.items():
            rule = f"left out with the executor {executor.name}"
            require(hasattr(executor, option), option, rule, value)
        return replace(executor, **reserved) if reserved else executor

    @property
    def saves_checkpoints(self) -> bool:
        """Whether a run saves checkpoints, so that it can be resumed."""
        return self.checkpoint_every is not None

    def checkpoint_in(self, folder: Path | None) -> CheckpointAt | None:
        """The checkpoint of the run in this folder; None if none is to be saved."""
        if folder is None or self.checkpoint_every is None:
            return None
        return CheckpointAt(folder / CHECKPOINT, self.checkpoint_every)

    def changed(self, **options: Any) -> Execution:
        """The same with other values of some options.

        Args:
            options: new values; None leaves an option as it is. A new executor or address drops
                the options that belong to the old executor.

        Returns:
            The new options.
        """
        given = {name: value for name, value in options.items() if value is not None}
        present = asdict(self)
        if {"executor", "address"} & set(given):
            present |= dict.fromkeys(("executor", "workers", "address", "cpus", "gpus"))
        return Execution(**{**present, **given})

    def to_json(self) -> dict[str, Any]:
        """The options as plain values; without `shards` the form is that of earlier versions."""
        values = asdict(self)
        if self.shards is None:
            del values["shards"]
        return values

    @classmethod
    def from_json(cls, content: Any) -> Execution:
        """Read the options from a JSON object, which anyone may have edited.

        Raises:
            BadInput: an option is unknown, or breaks its rule; the message says what to do.
        """
        try:
            return cls(**content)
        except (TypeError, ValueError) as error:
            raise BadInput(
                f"`execution` must have options of this version of sbmc, but got {content!r}: "
                f"{error} Write `{{}}` there for the defaults."
            ) from error
