"""Code that knows a model and its likelihood: value and gradient in one go, without autograd.

A kernel takes over where the model and the likelihood are such that it knows; elsewhere the model's
forward and autograd do the work. Both give the same numbers, to rounding.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from sbmc.likelihoods import Likelihood
from sbmc.log import logger
from sbmc.model.chunks import Chunks
from sbmc.model.data import Examples, tree_map
from sbmc.model.forward import Forward
from sbmc.model.fused import FusedForward
from sbmc.model.kernels.linear import LinearKernel
from sbmc.model.kernels.lowrank import LowRankKernel
from sbmc.model.kernels.native.chain import ChainKernel
from sbmc.model.kernels.native.head import HeadKernel
from sbmc.model.kernels.native.plan import PASSING, NotAChain
from sbmc.storage.lazy_rows import LazyRows

PROBE_EXAMPLES = 3
# An odd number of vectors, be they of eight or of sixteen lanes, of which the last is not full.
BATCH_PROBE_EXAMPLES = 36
# Rows of data in a file that are in memory at a time, those of one particle at least.
GATHERED_BYTES = 24 * 2**20
# Relative to the largest number: far above rounding, far below what a wrong kernel gives.
TOLERANCES = {torch.float32: 1e-3, torch.float64: 1e-9}


class Kernel(Protocol):
    """Sums over examples of the log likelihood and of its gradient, for many particles."""

    name: str

    def chunks(self, examples: int) -> Chunks:
        """The pieces in which it wants its work."""

    def prepared_bytes(self, examples: int) -> int:
        """Memory that `prepare` would take beyond the data."""

    def working_bytes(self, particles: int) -> int:
        """Memory that a call takes."""

    def prepare(self, inputs: Tensor, targets: Tensor) -> Any:
        """The data in the order in which they are read."""

    def __call__(
        self, theta: Tensor, prepared: Any, start: int, end: int, *, gradient: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """Sums `(particles,)` in float64, and `(particles, dim)`, over examples start to end."""


class BatchKernel(Protocol):
    """The same sums over mini-batches of some data, each particle with examples of its own."""

    name: str

    def __call__(self, theta: Tensor, index: Tensor, factor: Tensor, out: Tensor) -> Tensor:
        """Sums of log likelihoods over the examples that `index` names, and their gradients.

        Args:
            theta: `(particles, dim)`, contiguous.
            index: the examples of each particle, `(particles, batch)`, int64, whose rows are
                contiguous each.
            factor: `(dim,)`, contiguous: the gradient is multiplied by it.
            out: `(particles, dim)`, contiguous, which is overwritten with the gradient.

        Returns:
            The sums, `(particles,)` in float64.
        """


@runtime_checkable
class Batched(Protocol):
    """A kernel that takes mini-batches, too."""

    def batches(self, inputs: Tensor, targets: Tensor) -> BatchKernel:
        """The kernel for mini-batches of these data, which stay where they are."""


class GatheredBatches:
    """A kernel for mini-batches of data that are read when they are used.

    Args:
        kernel: takes mini-batches of data in memory.
        inputs: rows that are read when they are asked for.
        targets: of all rows.
    """

    def __init__(self, kernel: Batched, inputs: LazyRows, targets: Tensor) -> None:
        self._kernel, self._inputs, self._targets = kernel, inputs, targets
        self.name: str = kernel.name  # type: ignore[attr-defined]
        self._row_bytes = inputs.nbytes // len(inputs)

    def __call__(self, theta: Tensor, index: Tensor, factor: Tensor, out: Tensor) -> Tensor:
        """Read the rows of a few particles at a time, which the others do not depend on."""
        together = max(1, GATHERED_BYTES // max(1, index.shape[1] * self._row_bytes))
        values = []
        for start in range(0, len(index), together):
            some = slice(start, start + together)
            flat = index[some].reshape(-1)
            taken = self._inputs.read(flat), self._targets.index_select(0, flat)
            places = torch.arange(len(flat)).view(-1, index.shape[1])
            kernel = self._kernel.batches(*taken)
            values.append(kernel(theta[some], places, factor, out[some]))
        return torch.cat(values)


KERNELS = HeadKernel, LinearKernel, ChainKernel


# Those whose work is done in C.
COMPILED = (HeadKernel.name, ChainKernel.name)


class Choice(NamedTuple):
    """A kernel, or None for autograd, and in words why it is not compiled code; empty if it is."""

    kernel: Kernel | None
    reason: str


def find_kernel(
    forward: Forward, likelihood: Likelihood, examples: Examples, theta: Tensor
) -> Kernel | None:
    """The kernel for a model and its likelihood; see `choose_kernel`."""
    return choose_kernel(forward, likelihood, examples, theta).kernel


def choose_kernel(
    forward: Forward, likelihood: Likelihood, examples: Examples, theta: Tensor
) -> Choice:
    """The kernel for a model and its likelihood, tried on a few examples; None if there is none.

    Args:
        forward: the model.
        likelihood: of its outputs.
        examples: the data.
        theta: parameters to try it at, `(dim,)`.

    Returns:
        A kernel whose values and gradients agree with those by autograd, or None; and why none of
        the faster ones took over.
    """
    inputs = examples.inputs
    if not isinstance(forward, FusedForward):
        return Choice(None, f"there is none for the {forward.path} path")
    if not isinstance(inputs, Tensor):
        return Choice(None, "there is none for several inputs")
    layers = forward.layers()
    if layers is not None:
        layers = [(name, module) for name, module in layers if type(module) not in PASSING]
    reasons = [] if layers is not None else [f"not a chain of layers: {forward.chain_reason}"]
    known: list[tuple[Any, Any]] = [(kind, layers) for kind in KERNELS if layers is not None]
    adjusted = forward.adjusted()
    if adjusted is not None:
        known.append((LowRankKernel, adjusted))
    for kind, parts in known:
        try:
            few = Examples(inputs[:PROBE_EXAMPLES], examples.targets[:PROBE_EXAMPLES])
            kernel = kind(parts, forward.space, likelihood, inputs[:1])
            if _agrees(kernel, forward, likelihood, few, theta):
                return Choice(kernel, "" if kernel.name in COMPILED else "; ".join(reasons))
            reasons.append(f"the {kind.name} kernel differs from autograd")
            logger.info("kernel: %s", reasons[-1])
        except NotAChain as error:
            reasons.append(f"{kind.name}: {error}")
    return Choice(None, "; ".join(reasons))


def find_batch_kernel(
    kernel: Kernel | None,
    forward: Forward,
    likelihood: Likelihood,
    examples: Examples,
    theta: Tensor,
) -> BatchKernel | None:
    """The kernel that takes mini-batches, tried on two of them; None for autograd.

    Args:
        kernel: the one for all data; where there is none, there is none here.
        forward: the model.
        likelihood: of its outputs.
        examples: the data.
        theta: parameters to try it at, `(dim,)`.
    """
    inputs = examples.inputs
    if kernel is None or not isinstance(forward, FusedForward) or not isinstance(inputs, Tensor):
        return None
    try:
        batched: Any = kernel
        if not isinstance(kernel, Batched):
            batched = ChainKernel(forward.layers() or [], forward.space, likelihood, inputs[:1])
        few = Examples(inputs[:BATCH_PROBE_EXAMPLES], examples.targets[:BATCH_PROBE_EXAMPLES])
        tried: BatchKernel = batched.batches(few.inputs, few.targets)
        if _agrees_on_batches(tried, forward, likelihood, few, theta):
            if isinstance(inputs, LazyRows):
                return GatheredBatches(batched, inputs, examples.targets)
            return batched.batches(inputs, examples.targets)
        logger.info("kernel: the %s kernel differs from autograd on mini-batches", batched.name)
    except NotAChain as error:
        logger.info("kernel: none for mini-batches (%s)", error)
    return None


def _agrees(
    kernel: Kernel, forward: Forward, likelihood: Likelihood, few: Examples, theta: Tensor
) -> bool:
    theta = _with_neighbour(theta)
    assert isinstance(few.inputs, Tensor)
    value, gradient = kernel(theta, kernel.prepare(few.inputs, few.targets), 0, len(few))
    with torch.enable_grad():
        theta = theta.clone().requires_grad_()
        outputs = forward(theta, forward.prepare(few.inputs))
        expected = likelihood.log_prob(outputs, few.targets).sum(-1)
        (slope,) = torch.autograd.grad(expected.sum(), theta)
    assert gradient is not None
    return _close((value, gradient), (expected.detach(), slope))


def _agrees_on_batches(
    kernel: BatchKernel, forward: Forward, likelihood: Likelihood, few: Examples, theta: Tensor
) -> bool:
    """Two particles with batches that differ, of a size that leaves slots of a vector empty."""
    theta = _with_neighbour(theta)
    assert isinstance(few.inputs, Tensor)
    batch = max(1, len(few) - 1)
    index = torch.stack([torch.arange(batch), torch.arange(len(few) - batch, len(few)).flip(0)])
    factor = torch.linspace(0.5, 1.5, theta.shape[1]).to(theta)
    gradient = torch.empty_like(theta)
    value = kernel(theta, index, factor, gradient)
    with torch.enable_grad():
        theta = theta.clone().requires_grad_()
        inputs = forward.prepare(few.inputs[index.flatten()])
        stacked = tree_map(lambda tensor: tensor.unflatten(0, index.shape), inputs)
        outputs = forward(theta, stacked, stacked=True)
        each = likelihood.log_prob(outputs, few.targets[index], stacked=True)
        (slope,) = torch.autograd.grad(each.sum(), theta)
    return _close((value, gradient), (each.sum(-1).detach(), slope * factor))


def _with_neighbour(theta: Tensor) -> Tensor:
    """Two points to try a kernel at: `theta` `(dim,)` and another one."""
    wave = torch.arange(len(theta), device=theta.device).sin().to(theta.dtype)
    return torch.stack([theta, theta + 0.1 * (theta.abs().mean() + 0.1) * wave])


def _close(values: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> bool:
    """Whether a kernel's values and gradients are those of autograd, where these are finite."""
    tolerance = TOLERANCES[expected[1].dtype]
    for ours, theirs in zip(values, expected, strict=True):
        ours, theirs = ours.double(), theirs.double()
        finite = torch.isfinite(theirs)
        scale = float(theirs[finite].abs().max()) if bool(finite.any()) else 0.0
        close = (ours - theirs).abs() <= tolerance * (scale + 1e-6)
        if not bool((close | ~finite).all()):
            return False
    return True
