"""What a rank does with its shard of the data, on behalf of rank 0."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from sbmc.model.threads import thread_count, torch_threads
from sbmc.prior.gaussian import AnchoredPrior
from sbmc.target.engine import LikelihoodEngine
from sbmc.target.minibatch import MiniBatches
from sbmc.target.shards.group import Command, Ranks, unpacked
from sbmc.target.target import Target


class Shard:
    """A rank's part of the data: examples that follow on one another.

    Args:
        engine: of these examples.
        first: the number of the first of them among all.
        threads: that torch may use here.
    """

    def __init__(self, engine: LikelihoodEngine, first: int, threads: int) -> None:
        self.engine = engine
        self._first, self._threads = first, threads
        self._parts: dict[int, list[LikelihoodEngine]] = {}
        self._batches: MiniBatches | None = None

    def gradient(self, theta: Tensor, parts: int, part: int) -> tuple[Tensor, Tensor]:
        """Log likelihood `(particles,)` and gradient `(particles, dim)` of the shard, float64."""
        with torch_threads(min(self._threads, thread_count())):
            return self._part(parts, part)(theta)

    def forward(self, theta: Tensor, parts: int, part: int) -> Tensor:
        """Log likelihood alone."""
        with torch_threads(min(self._threads, thread_count())):
            return self._part(parts, part).log_likelihood(theta)

    def batches(self, theta: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """Sums over those examples of each particle's mini-batch that are in this shard.

        Args:
            theta: parameters, `(particles, dim)`.
            index: numbers of examples among all, `(particles, batch)`.

        Returns:
            The sums `(particles,)` and their gradients `(particles, dim)`, float64.
        """
        if self._batches is None:
            zero = torch.zeros_like(theta[0])
            same = AnchoredPrior(zero, torch.ones_like(zero), zero)  # coordinates are parameters
            self._batches = MiniBatches(Target(self.engine, same))
        values = torch.zeros(len(theta), dtype=torch.float64, device=theta.device)
        gradients = torch.zeros(theta.shape, dtype=torch.float64, device=theta.device)
        local = index - self._first
        here = (local >= 0) & (local < len(self.engine.examples))
        counts = here.sum(1)
        with torch_threads(min(self._threads, thread_count())):
            # Particles with as many examples here go together: a batch is a rectangle.
            for count in counts.unique().tolist():
                if count:
                    rows = (counts == count).nonzero()[:, 0]
                    some = local[rows][here[rows]].reshape(len(rows), count)
                    sums = self._batches.evaluate(theta[rows], some, 1.0)
                    values[rows] = sums.log_likelihood
                    gradients[rows] = sums.gradient.double()
        return values, gradients

    def _part(self, parts: int, part: int) -> LikelihoodEngine:
        if parts == 1:
            return self.engine
        if parts not in self._parts:
            self._parts = {parts: self.engine.split(parts)}
        return self._parts[parts][part]


def serve(ranks: Ranks, device: str | None = None) -> bytes:
    """Do what rank 0 asks until it says that there is nothing more.

    Args:
        ranks: this process's end of the group.
        device: the GPU of this rank, if it has one.

    Returns:
        The last message of rank 0.

    Raises:
        RankLost: rank 0 is gone.
    """
    shard: Shard | None = None
    while True:
        command, numbers = ranks.next_command()
        if command is Command.END:
            return ranks.receive(0)
        if command is Command.LOAD:
            shard = None  # before the next one is there
            shard, error = attempt(partial(_load, ranks.receive(0), device))
            ranks.answer(torch.zeros(0, dtype=torch.float64), error)
            continue
        assert shard is not None
        _evaluate(ranks, shard, command, numbers)


def _load(data: bytes, device: str | None) -> Shard:
    return Shard(*unpacked(data, device))


def _evaluate(ranks: Ranks, shard: Shard, command: Command, numbers: list[int]) -> None:
    rows, columns, parts, part = numbers
    theta = shard.engine.point.new_empty(rows, shard.engine.dim)
    ranks.broadcast(theta)
    if command is Command.FORWARD:
        value, error = attempt(lambda: shard.forward(theta, parts, part))
        ranks.answer(torch.zeros(rows).double() if value is None else value.cpu(), error)
        return
    if command is Command.BATCHES:
        index = torch.empty(rows, columns, dtype=torch.int64, device=theta.device)
        ranks.broadcast(index)
        sums, error = attempt(lambda: shard.batches(theta, index))
    else:
        sums, error = attempt(lambda: shard.gradient(theta, parts, part))
    if sums is None:  # the others wait for this rank's part of the sum
        sums = torch.zeros(rows).double(), torch.zeros_like(theta, dtype=torch.float64)
    ranks.answer(sums[0].cpu(), error, sums[1].contiguous())


def attempt(function: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """The result of a function, or None and the error that it raised."""
    try:
        return function(), None
    except Exception as error:
        return None, error
