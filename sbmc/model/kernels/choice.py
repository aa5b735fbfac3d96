"""Code that knows a model and its likelihood: value and gradient in one go, without autograd.

A kernel takes over where the model and the likelihood are such that it knows; elsewhere the model's
forward and autograd do the work. Both give the same numbers, to rounding.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from sbmc.likelihoods import Likelihood
from sbmc.log import logger
from sbmc.model.chunks import Chunks
from sbmc.model.data import Examples
from sbmc.model.forward import Forward
from sbmc.model.fused import FusedForward
from sbmc.model.kernels.linear import LinearKernel
from sbmc.model.kernels.lowrank import LowRankKernel
from sbmc.model.kernels.native.chain import ChainKernel
from sbmc.model.kernels.native.head import HeadKernel
from sbmc.model.kernels.native.plan import PASSING, NotAChain

PROBE_EXAMPLES = 3
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


def _agrees(
    kernel: Kernel, forward: Forward, likelihood: Likelihood, few: Examples, theta: Tensor
) -> bool:
    wave = torch.arange(len(theta), device=theta.device).sin().to(theta.dtype)
    theta = torch.stack([theta, theta + 0.1 * (theta.abs().mean() + 0.1) * wave])
    assert isinstance(few.inputs, Tensor)
    value, gradient = kernel(theta, kernel.prepare(few.inputs, few.targets), 0, len(few))
    with torch.enable_grad():
        theta = theta.clone().requires_grad_()
        outputs = forward(theta, forward.prepare(few.inputs))
        expected = likelihood.log_prob(outputs, few.targets).sum(-1)
        (slope,) = torch.autograd.grad(expected.sum(), theta)
    assert gradient is not None
    tolerance = TOLERANCES[theta.dtype]
    for ours, theirs in ((value, expected.detach().double()), (gradient.double(), slope.double())):
        finite = torch.isfinite(theirs)
        scale = float(theirs[finite].abs().max()) if bool(finite.any()) else 0.0
        close = (ours - theirs).abs() <= tolerance * (scale + 1e-6)
        if not bool((close | ~finite).all()):
            return False
    return True
