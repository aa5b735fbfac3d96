"""Linear layers by oneDNN's matrix products, with their gradients.

Torch multiplies float32 matrices by MKL, which runs at half the speed of the machine on processors
that are not Intel's. The library that torch has for convolutions, oneDNN, does not. Small products
are left to torch, whose calls cost less.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

# Multiplications below which a call, not the product, is what costs; and columns below which
# oneDNN has nothing to gain.
SMALL_PRODUCT, FEW_COLUMNS = 2**20, 16


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear`, equal to rounding.

    Args:
        x: `(..., inputs)`.
        weight: `(outputs, inputs)`.
        bias: `(outputs,)`, if there is one.

    Returns:
        `(..., outputs)`.

    Examples:
        >>> x, weight = torch.ones(300, 64), torch.ones(64, 64)
        >>> torch.equal(linear(x, weight), F.linear(x, weight))
        True
    """
    if x.numel() * len(weight) < SMALL_PRODUCT or min(weight.shape) < FEW_COLUMNS:
        return F.linear(x, weight, bias)
    if x.dtype != torch.float32 or x.device.type != "cpu" or not available():
        return F.linear(x, weight, bias)
    result: Tensor = _Linear.apply(x, weight, bias)
    return result


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        rows = gradient.reshape(-1, len(weight))
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            _product(rows, weight.t()).view(x.shape) if needs_x else None,
            _product(rows.t(), x.reshape(-1, x.shape[-1]).t()) if needs_weight else None,
            rows.sum(0) if needs_bias else None,
        )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`x @ weight.T + bias` by oneDNN."""
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return result


@cache
def available() -> bool:
    """Whether torch has oneDNN, and it multiplies as torch does; tried once."""
    if not torch.backends.mkldnn.is_available():
        return False
    x, weight, bias = (torch.arange(float(n)).sin() for n in (7 * 5, 3 * 5, 3))
    x, weight = x.view(7, 5), weight.view(3, 5)
    try:
        with torch.no_grad():
            pairs = (
                (_product(x, weight, bias), F.linear(x, weight, bias)),
                (_product(x.t(), x.t()), x.t() @ x),
            )
    except (AttributeError, RuntimeError):  # an operator without a promise
        return False
    return all(torch.allclose(ours, theirs, atol=1e-5) for ours, theirs in pairs)
