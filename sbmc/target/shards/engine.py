"""A likelihood engine whose data are divided among ranks; rank 0 holds it and samples with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sbmc.checks import require
from sbmc.log import logger
from sbmc.model.chunks import Chunks
from sbmc.model.data import Examples
from sbmc.model.kernels.choice import BatchKernel
from sbmc.model.threads import Lock, even_chunks
from sbmc.target.contract import Engine
from sbmc.target.engine import LikelihoodEngine
from sbmc.target.parts import Parts
from sbmc.target.shards.group import Command, FailedInRank, Ranks, packed
from sbmc.target.shards.serving import Shard, attempt
from sbmc.target.shards.settings import Shards
from sbmc.target.shards.started import started_ranks
from sbmc.target.shards.torchrun import torchrun_ranks

# Gradients of one message, in float64. Particles that have more come in several messages.
MESSAGE_BYTES = 2**28
# The ranks of a process serve all its engines, and would mix up the messages of two threads.
_ONE_EVALUATION = Lock()


class ShardedEngine:
    """ℓ(θ) = Σ_r ℓ_r(θ), and its gradient, with the examples of rank r in ℓ_r.

    It has the interface of a likelihood engine. Ranks are found, or started, at the first
    evaluation, and a copy in another process has ranks of its own. Sums are made in float64, in an
    order that follows from the number of ranks; so equal numbers of ranks give equal bits.

    Args:
        engine: of all data. It answers what needs a few examples, such as the watched
            predictions; what it has prepared is freed.
        shards: how many ranks, and who starts them.
        part: which part of how many is evaluated; all data by default.

    Raises:
        BadInput: there are fewer examples than ranks.
    """

    def __init__(
        self, engine: LikelihoodEngine, shards: Shards, part: tuple[int, int] = (1, 0)
    ) -> None:
        self._engine, self.shards, self._part = engine, shards, part
        engine.forget_prepared()
        rule = f"at most the number of examples, {len(self.examples)}"
        require(self.ranks <= len(self.examples), "shards", rule, self.ranks)
        self._start_empty()

    def _start_empty(self) -> None:
        self._shard: Shard | None = None
        self._token = object()  # stands for the shards that the other ranks hold

    def __getstate__(self) -> dict[str, Any]:
        return {"_engine": self._engine, "shards": self.shards, "_part": self._part}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._engine.forget_prepared()
        self._start_empty()

    # What all data are asked, of which rank 0 knows enough.

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return torchrun_ranks().size if self.shards.by_torchrun else int(self.shards.ranks)

    @property
    def limited(self) -> bool:
        """Whether a memory limit has made chunks smaller."""
        return self._engine.limited

    @property
    def chunks(self) -> Chunks:
        """Chunk sizes, which all ranks have."""
        return self._engine.chunks

    @property
    def dim(self) -> int:
        """Number of sampled parameters."""
        return self._engine.dim

    @property
    def width(self) -> int:
        """Bytes of one parameter vector."""
        return self._engine.width

    @property
    def block_sizes(self) -> tuple[int, ...]:
        """Number of elements of each sampled parameter."""
        return self._engine.block_sizes

    @property
    def shareable(self) -> bool:
        """Never: the messages of two threads would be mixed up."""
        return False

    @property
    def examples(self) -> Examples:
        """The data of all ranks."""
        return self._engine.examples

    @property
    def rows(self) -> int:
        """How many examples the ranks have together."""
        return self._engine.rows

    @property
    def stream(self) -> None:
        """There is none: `fit` refuses to divide data that are streamed."""
        return None

    def on(self, examples: Examples) -> LikelihoodEngine:
        """The engine of other data, in this process alone."""
        return self._engine.on(examples)

    @property
    def path(self) -> str:
        """How the model is evaluated."""
        return self._engine.path

    @property
    def kernel(self) -> str | None:
        """The name of the kernel; None if autograd computes the gradient."""
        return self._engine.kernel

    @property
    def kernel_reason(self) -> str:
        """Why no compiled kernel is used, in words."""
        return self._engine.kernel_reason

    def predictions(self, theta: Tensor, index: Tensor, most: int) -> Tensor:
        """Predictions for some examples, by rank 0 alone."""
        return self._engine.predictions(theta, index, most)

    def parts(self, *, prepare: bool = True) -> Parts:
        """The parts of the engine of all data."""
        return self._engine.parts(prepare=prepare)

    # What the ranks compute together.

    def evaluate(
        self,
        positions: Tensor,
        to_parameters: Callable[[Tensor], Tensor],
        finish: Callable[[Tensor], Tensor],
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        """Log likelihoods and gradients in the coordinates of the caller.

        Args:
            positions: `(particles, dim)` in these coordinates.
            to_parameters: parameters of some positions, as a new tensor.
            finish: the float64 gradient in these coordinates from that in the parameters.
            dtype: of what `finish` returns.

        Returns:
            The log likelihood `(particles,)`, float64, and its gradient.

        Raises:
            RankLost: a rank died, or did not answer in time.
            FailedInRank: the model or the likelihood raised an error in another rank.
        """
        values = torch.empty(len(positions), dtype=torch.float64, device=positions.device)
        gradients = torch.empty(positions.shape, dtype=dtype, device=positions.device)
        for some in self._messages(len(positions)):
            theta = to_parameters(positions[some]).detach()
            value, gradient = self._sums(
                Command.GRADIENT, theta, lambda shard, rows: shard.gradient(rows, *self._part)
            )
            values[some], gradients[some] = value, finish(gradient)
        return values, gradients

    def log_likelihood(self, theta: Tensor) -> Tensor:
        """Log likelihood alone, `(particles,)` float64."""
        values = torch.empty(len(theta), dtype=torch.float64, device=theta.device)
        for some in self._messages(len(theta)):
            values[some], _ = self._sums(
                Command.FORWARD,
                theta[some].detach(),
                lambda shard, rows: (shard.forward(rows, *self._part), None),
            )
        return values

    def split(self, batches: int) -> list[ShardedEngine]:
        """Engines of disjoint parts of the data: a part has its share of every rank's examples.

        Raises:
            BadInput: a rank has fewer examples than there are parts.
        """
        with _ONE_EVALUATION:
            self._ranks()
        fewest = len(self.examples) // self.ranks
        rule = f"from 1 to the number of examples of a rank, {fewest}"
        require(1 <= batches <= fewest, "scout_batches", rule, batches)
        parts = [ShardedEngine(self._engine, self.shards, (batches, i)) for i in range(batches)]
        for part in parts:
            part._shard, part._token = self._shard, self._token
        return parts

    def batch_kernel(self) -> BatchKernel:
        """What evaluates mini-batches: every rank those of its examples that are among them."""
        return _BatchesOfRanks(self)

    def batch_sums(self, theta: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """Sums over mini-batches of all data, and their gradients, float64.

        Args:
            theta: parameters, `(particles, dim)`.
            index: the examples of each particle, `(particles, batch)`.
        """
        values = torch.empty(len(theta), dtype=torch.float64, device=theta.device)
        gradients = torch.empty(theta.shape, dtype=torch.float64, device=theta.device)
        for some in self._messages(len(theta)):
            values[some], gradients[some] = self._sums(
                Command.BATCHES,
                theta[some].detach(),
                lambda shard, rows, some=some: shard.batches(rows, index[some]),  # type: ignore[misc]
                index[some],
            )
        return values, gradients

    def _messages(self, particles: int) -> list[slice]:
        each = max(1, MESSAGE_BYTES // (8 * self.dim))
        return [slice(i, min(i + each, particles)) for i in range(0, particles, each)]

    def _sums(
        self,
        command: Command,
        theta: Tensor,
        evaluate: Callable[[Shard, Tensor], tuple[Tensor, Tensor | None]],
        index: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """Ask all ranks, evaluate the shard of this one meanwhile, and add everything up."""
        with _ONE_EVALUATION:
            ranks = self._ranks()
            shard = self._shard
            assert shard is not None
            theta = theta.contiguous()
            columns = 0 if index is None else index.shape[1]
            with ranks.in_step():
                ranks.command(command, len(theta), columns, *self._part)
                ranks.broadcast(theta)
                if index is not None:
                    ranks.broadcast(index.contiguous())
                answers = ranks.answers(len(theta))
                sums, error = attempt(lambda: evaluate(shard, theta))
                values = answers()
                if command is not Command.FORWARD:
                    # The others wait for this rank's part of the sum, even if it has failed.
                    nothing = torch.zeros_like(theta, dtype=torch.float64)
                    gradient = nothing if sums is None else sums[1].contiguous()
                    ranks.reduce(gradient)
                failures = ranks.failures(values)
            if error is not None:
                raise error
            if failures:
                raise FailedInRank("; ".join(failures))
            total = sums[0]
            for one in values:  # in the order of the ranks
                total = total + one[:-1].to(total.device)
            return total, None if command is Command.FORWARD else gradient

    def _ranks(self) -> Ranks:
        """The ranks, with the shards of this engine."""
        ranks = torchrun_ranks() if self.shards.by_torchrun else started_ranks(self.shards)
        if self._shard is None or ranks.loaded is not self._token:
            self._load(ranks)
        return ranks

    def _load(self, ranks: Ranks) -> None:
        rows = even_chunks(len(self.examples), ranks.size)
        threads = ranks.threads or self.shards.threads_each
        logger.info("shards: %d examples in %d ranks", len(self.examples), ranks.size)
        self._shard = Shard(self._engine.part(rows[0]), 0, threads)
        with ranks.in_step():
            ranks.command(Command.LOAD)
            answers = ranks.answers(0)
            for rank in ranks.others:
                part = self._engine.part(rows[rank], prepare=False)
                ranks.send(packed((part, rows[rank].start, threads)), rank)
            failures = ranks.failures(answers())
        if failures:
            raise FailedInRank("; ".join(failures))
        ranks.loaded = self._token


def ranks_of(engine: Engine) -> int:
    """How many processes an evaluation of this engine takes."""
    return engine.ranks if isinstance(engine, ShardedEngine) else 1


class _BatchesOfRanks:
    """The kernel of mini-batches whose examples are in several ranks."""

    def __init__(self, engine: ShardedEngine) -> None:
        self._engine = engine
        self.name = "shards"

    def __call__(self, theta: Tensor, index: Tensor, factor: Tensor, out: Tensor) -> Tensor:
        values, gradients = self._engine.batch_sums(theta, index)
        out.copy_(gradients.mul_(factor))
        return values
