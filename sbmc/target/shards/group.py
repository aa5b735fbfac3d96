"""A group of ranks: messages between rank 0 and the others, and what is said when one is lost.

`torch.distributed` carries the messages: gloo between CPUs, NCCL between GPUs. Answers come to
rank 0 one by one before gradients are added up in one collective call. So a rank that is lost while
it computes is known by its number.
"""

from __future__ import annotations

import datetime
import enum
import io
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import cloudpickle
import torch
import torch.distributed as dist
from torch import Tensor

from sbmc.log import logger

# Tags of messages between two ranks.
_ANSWER, _BYTES, _PROBE = 1, 2, 3
# Numbers of a command: what, rows, columns, and which part of how many.
_HEADER = 5
# Other ranks wait for as long as rank 0 lives: it may have other work between two evaluations.
_PATIENCE = datetime.timedelta(days=365)
# A connection that was closed says so at once.
_PROBE_TIME = datetime.timedelta(milliseconds=200)


class Command(enum.IntEnum):
    """What rank 0 asks of the others."""

    LOAD = 0
    GRADIENT = 1
    FORWARD = 2
    BATCHES = 3
    END = 4


class RankLost(RuntimeError):
    """A rank died or did not answer, so that the data are no longer complete.

    Args:
        message: which one, how, and what to do.
        restartable: whether the next evaluation can start the ranks again.
    """

    def __init__(self, message: str, restartable: bool = True) -> None:
        super().__init__(message, restartable)
        self.message, self.restartable = message, restartable

    def __str__(self) -> str:
        return self.message


class FailedInRank(RuntimeError):
    """The model or the likelihood raised an error in a rank; its text says which and what."""


class Ranks:
    """This process's end of a group.

    Args:
        group: a `torch.distributed.ProcessGroup`, or one of its backends by itself.
        timeout: seconds in which a rank has to answer.
        ending: how the process of a rank has ended, in words, where that is known.
        restartable: whether lost ranks can be started again.
        threads: that torch may use in a rank, if whoever has started it says so.
    """

    def __init__(
        self,
        group: Any,
        timeout: float,
        ending: Callable[[int], str] = lambda rank: "",
        restartable: bool = True,
        threads: int | None = None,
    ) -> None:
        self._group, self._ending, self._restartable = group, ending, restartable
        self.threads, self.timeout = threads, timeout
        self._timeout = datetime.timedelta(seconds=timeout)
        self.rank, self.size = group.rank(), group.size()
        self.loaded: object = None  # whose shards the other ranks hold
        self.broken = False  # whether a rank was lost, or a call was cut short by an interrupt

    @property
    def others(self) -> range:
        """All ranks but 0."""
        return range(1, self.size)

    @contextmanager
    def in_step(self) -> Iterator[None]:
        """Between a command and its last answer: if that is cut short, the group is broken."""
        self.broken = True
        yield
        self.broken = False

    def command(self, command: Command, *numbers: int) -> None:
        """Tell the other ranks what comes next."""
        header = torch.zeros(_HEADER, dtype=torch.int64)
        header[: 1 + len(numbers)] = torch.tensor([int(command), *numbers])
        self.broadcast(header)

    def end(self, answer: bytes) -> None:
        """Tell the other ranks that there is nothing more to do, with a last message."""
        self.command(Command.END)
        for rank in self.others:
            self.send(answer, rank)

    def next_command(self) -> tuple[Command, list[int]]:
        """Wait for a command; for ranks other than 0."""
        header = torch.zeros(_HEADER, dtype=torch.int64)
        self.broadcast(header, _PATIENCE)
        first, *numbers = header.tolist()
        return Command(first), numbers

    def broadcast(self, tensor: Tensor, timeout: datetime.timedelta | None = None) -> None:
        """Send a tensor of rank 0 to all; elsewhere it is overwritten."""
        options = dist.BroadcastOptions()
        options.rootRank, options.timeout = 0, timeout or self._timeout
        with self._named():
            self._group.broadcast([tensor], options).wait()

    def reduce(self, tensor: Tensor) -> None:
        """Add up tensors of all ranks in that of rank 0; those of the others become worthless.

        The order of the sum follows from the number of ranks alone, and so do its bits.
        """
        options = dist.ReduceOptions()
        options.rootRank, options.timeout = 0, self._timeout
        with self._named():
            self._group.reduce([tensor], options).wait()

    def answers(self, rows: int) -> Callable[[], list[Tensor]]:
        """Begin to receive a tensor `(rows + 1,)` from every other rank.

        Returns:
            A function that waits for them, and returns them in the order of the ranks, without
            their last number: it says whether the rank has failed.
        """
        tensors = [torch.zeros(rows + 1, dtype=torch.float64) for _ in self.others]
        waits = []
        for rank, tensor in zip(self.others, tensors, strict=True):
            with self._named(rank):
                waits.append(self._group.recv([tensor], rank, _ANSWER))

        def wait_for_all() -> list[Tensor]:
            for rank, wait in zip(self.others, waits, strict=True):
                with self._named(rank):
                    wait.wait(self._timeout)
            return tensors

        return wait_for_all

    def answer(
        self, values: Tensor, error: BaseException | None, gradient: Tensor | None = None
    ) -> None:
        """Send to rank 0 what it waits for: in this order, since each message waits for the next.

        Args:
            values: `(rows,)` float64.
            error: what went wrong, if something did.
            gradient: to be added up with those of the others.
        """
        flag = values.new_tensor([float(error is not None)])
        with self._named(0):
            self._group.send([torch.cat([values, flag])], 0, _ANSWER).wait()
        if gradient is not None:
            self.reduce(gradient)
        if error is not None:
            self.send(f"{type(error).__name__}: {error}".encode(), 0)

    def failures(self, answers: Sequence[Tensor]) -> list[str]:
        """What went wrong in the ranks whose answers say that something did."""
        failed = [
            rank for rank, one in zip(self.others, answers, strict=True) if bool(one[-1] != 0)
        ]
        return [f"rank {rank} of {self.size}: {self.receive(rank).decode()}" for rank in failed]

    def send(self, data: bytes, rank: int) -> None:
        """Send bytes to a rank."""
        with self._named(rank):
            for tensor in (torch.tensor([len(data)]), _as_tensor(data)):
                self._group.send([tensor], rank, _BYTES).wait()

    def receive(self, rank: int) -> bytes:
        """Receive bytes from a rank."""
        length = torch.zeros(1, dtype=torch.int64)
        with self._named(rank):
            self._group.recv([length], rank, _BYTES).wait()
            data = torch.zeros(int(length), dtype=torch.uint8)
            self._group.recv([data], rank, _BYTES).wait()
        return data.numpy().tobytes()

    @contextmanager
    def _named(self, rank: int | None = None) -> Iterator[None]:
        """Say which rank was lost, where `torch.distributed` has only an address."""
        try:
            yield
        except RuntimeError as error:
            self.broken = True
            lost = RankLost(self._in_words(rank, str(error)), self._restartable)
            if self.rank == 0 and not self._restartable:
                logger.error("%s", lost)  # at once: torchrun ends this process in a moment
            raise lost from error

    def _in_words(self, rank: int | None, text: str) -> str:
        lost = [rank] if rank is not None else self._closed()
        endings = {each: ending for each in lost if (ending := self._ending(each))}
        # One that was killed is the cause. Others end because they have lost it, or rank 0.
        killed = [each for each, ending in endings.items() if "signal" in ending]
        lost = killed or lost
        named = " and ".join(f"rank {each}" for each in lost) or "a rank"
        late = "imed out" in text
        if endings and (killed or not late):
            how = ", ".join(endings[each] for each in lost if each in endings)
        elif late:  # a rank that waits for another ends, too, but that is not the cause
            how = f"no answer within {self._timeout.total_seconds():g} seconds"
        else:
            how = "the connection was closed"
        message = (
            f"{named} of {self.size} was lost ({how}), and with it a part of the data. With a "
            "`checkpoint`, the same call goes on from the last snapshot, also with another number "
            "of `shards`."
        )
        if killed or not late:
            return message
        return f"{message} If it was only slow, give `sbmc.Shards` a longer `timeout`."

    def _closed(self) -> list[int]:
        """The ranks whose connections are closed, asked one by one."""
        closed = []
        for rank in range(self.size) if self.rank else self.others:
            if rank == self.rank:
                continue
            try:
                self._group.recv([torch.zeros(1)], rank, _PROBE).wait(_PROBE_TIME)
            except RuntimeError as error:
                if "imed out" not in str(error):
                    closed.append(rank)
        return closed


def packed(value: Any) -> bytes:
    """A value as bytes, with code that was defined in a script or a notebook."""
    stream = io.BytesIO()
    torch.save(value, stream, pickle_module=cloudpickle, pickle_protocol=pickle.HIGHEST_PROTOCOL)
    return stream.getvalue()


def unpacked(data: bytes, device: str | None = None) -> Any:
    """What `packed` has packed, with tensors of a GPU on this one."""
    where = None if device is None else {"cuda:0": device}
    stream = io.BytesIO(data)
    return torch.load(stream, where, weights_only=False)


def _as_tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)
