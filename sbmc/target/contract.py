"""What a target and a job need of a likelihood engine, in one process or in several ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from sbmc.likelihoods import Likelihood
from sbmc.model.chunks import Chunks, Footprint
from sbmc.model.data import Examples, Inputs
from sbmc.model.forward import Forward
from sbmc.model.kernels.choice import BatchKernel
from sbmc.model.parameters import ParameterSpace


class Source(NamedTuple):
    """The model and parameters of a forward, so that another process can build it again."""

    model: nn.Module
    space: ParameterSpace


class Parts(NamedTuple):
    """The parts of an engine, for evaluations on other batches."""

    forward: Forward
    examples: Examples
    prepared: Inputs | None  # the inputs as `forward` needs them, if they are stored
    likelihood: Likelihood
    footprint: Footprint


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
