"""What a target and a job need of a likelihood engine, in one process or in several ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from sbmc.model.chunks import Chunks
from sbmc.model.data import Examples
from sbmc.model.kernels.choice import BatchKernel
from sbmc.target.parts import Parts
from sbmc.target.streaming import EngineStream


class Engine(Protocol):
    """Log likelihood ℓ(θ) of all data and its gradient; `LikelihoodEngine` explains the members."""

    @property
    def limited(self) -> bool:
        """Whether a memory limit has made chunks smaller."""

    @property
    def chunks(self) -> Chunks:
        """Chunk sizes."""

    @property
    def kernel_reason(self) -> str:
        """Why no compiled kernel is used, in words."""

    @property
    def dim(self) -> int:
        """Number of sampled parameters."""

    @property
    def width(self) -> int:
        """Bytes of one parameter vector."""

    @property
    def block_sizes(self) -> tuple[int, ...]:
        """Number of elements of each sampled parameter."""

    @property
    def shareable(self) -> bool:
        """Whether threads may evaluate it side by side."""

    @property
    def examples(self) -> Examples:
        """The data."""

    @property
    def rows(self) -> int:
        """How many examples the likelihood is of."""

    @property
    def stream(self) -> EngineStream | None:
        """The stream of data that are not held; None if all examples are at hand."""

    def on(self, examples: Examples) -> Engine:
        """The same engine with other data, such as a mini-batch that all particles share."""

    @property
    def path(self) -> str:
        """How the model is evaluated."""

    @property
    def kernel(self) -> str | None:
        """The name of the kernel; None for autograd."""

    def evaluate(
        self,
        positions: Tensor,
        to_parameters: Callable[[Tensor], Tensor],
        finish: Callable[[Tensor], Tensor],
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        """Log likelihoods and gradients in the coordinates of the caller."""

    def log_likelihood(self, theta: Tensor) -> Tensor:
        """Log likelihoods alone."""

    def predictions(self, theta: Tensor, index: Tensor, most: int) -> Tensor:
        """Predictions for some examples."""

    def split(self, batches: int) -> Sequence[Engine]:
        """Engines of disjoint parts of the data, whose log likelihoods add up."""

    def batch_kernel(self) -> BatchKernel | None:
        """What evaluates mini-batches of the data; None where autograd does the work."""

    def parts(self, *, prepare: bool = True) -> Parts:
        """The parts of the engine."""
