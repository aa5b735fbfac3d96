"""A linear layer and its likelihood: value and gradient as two matrix products, no autograd.

For rows X of the data and the weights W of all particles, one below the other,

    Z = W Xᵀ + b,    R = ∂ log p(Y | Z) / ∂Z,    ∂/∂W = R X,    ∂/∂b = Σ R

Rows go through in pieces whose Z stays in cache, so that the data are read once for both products.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from sbmc.likelihoods import Categorical, Likelihood, known_variance
from sbmc.model.chunks import Chunks
from sbmc.model.kernels.native.plan import NotAChain
from sbmc.model.parameters import ParameterSpace

ROWS = 512
# Outputs of all particles together: more of them share one reading of the data.
OUTPUTS = 1024
# Parts of the data whose sums are added in float64, and which threads take side by side.
PARTS = 8


class Rows(NamedTuple):
    """The data as they are."""

    inputs: Tensor  # (examples, features)
    targets: Tensor  # (examples,) labels or (examples, outputs)


class Linear(NamedTuple):
    """A linear layer, and where its parameters begin in a particle's vector."""

    outputs: int
    features: int
    weight: int
    bias: int | None


def find_linear(
    layers: Sequence[tuple[str, nn.Module]], space: ParameterSpace, inputs: Tensor
) -> Linear:
    """The layer, if a model is one linear layer, all of whose parameters are sampled.

    Args:
        layers: the modules by name, without those that pass everything on.
        space: the sampled parameters.
        inputs: a few examples.

    Raises:
        NotAChain: it is not that.
    """
    name, layer = layers[0] if len(layers) == 1 else ("", None)
    if type(layer) is not nn.Linear or inputs.ndim != 2:
        raise NotAChain("not one linear layer")
    assert isinstance(layer, nn.Linear)  # for the type checker
    names = [f"{name}.{part}" if name else part for part, _ in layer.named_parameters()]
    if sorted(names) != sorted(space.names):
        raise NotAChain("frozen parameters")
    begins = [sum(space.sizes[: space.names.index(each)]) for each in names]
    sizes = int(layer.out_features), int(layer.in_features)
    return Linear(*sizes, begins[0], begins[1] if len(begins) > 1 else None)


class LinearKernel:
    """Value and gradient of one linear layer under a likelihood.

    Args:
        layers: the modules by name: one linear layer, and perhaps such that pass everything on.
        space: the sampled parameters, which have to be all that the layer has.
        likelihood: categorical or Gaussian.
        inputs: a few examples.

    Raises:
        NotAChain: it is not that.
    """

    name = "linear"

    def __init__(
        self,
        layers: Sequence[tuple[str, nn.Module]],
        space: ParameterSpace,
        likelihood: Likelihood,
        inputs: Tensor,
    ) -> None:
        layer = find_linear(layers, space, inputs)
        self._noise = known_variance(likelihood)
        if not isinstance(likelihood, Categorical) and self._noise is None:
            raise NotAChain("a likelihood that the kernels do not have")
        if inputs.dtype not in (torch.float32, torch.float64):
            raise NotAChain(f"{inputs.dtype}")
        self._outputs, self._features = layer.outputs, layer.features
        end = layer.weight + layer.outputs * layer.features
        self._weight = slice(layer.weight, end)
        bias = layer.bias
        self._bias = None if bias is None else slice(bias, bias + layer.outputs)
        self._dim = space.dim
        self._element = inputs.element_size()

    def chunks(self, examples: int) -> Chunks:
        """Whole pieces of rows, `PARTS` times or a few more; as many particles as share them."""
        pieces = max(1, examples // (PARTS * ROWS))
        particles = max(1, OUTPUTS // self._outputs)
        return Chunks(min(examples, pieces * ROWS), particles)

    def prepared_bytes(self, examples: int) -> int:
        """Nothing is made of the data."""
        return 0

    def working_bytes(self, particles: int) -> int:
        """Memory that a call takes: weights, their gradients, twice, and outputs of some rows."""
        return self._element * particles * (4 * self._dim + 3 * self._outputs * ROWS)

    def prepare(self, inputs: Tensor, targets: Tensor) -> Rows:
        """The data as they are."""
        return Rows(inputs, targets)

    def __call__(
        self, theta: Tensor, prepared: Rows, start: int, end: int, *, gradient: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """Sums over the examples `start` to `end`: log likelihood, and its gradient in `theta`.

        Args:
            theta: `(particles, dim)`.
            prepared: from `prepare`.
            start: the first example.
            end: after the last one.
            gradient: whether it is wanted.

        Returns:
            `(particles,)` in float64 and `(particles, dim)` or None.
        """
        theta = theta.detach()
        count = len(theta)
        weight = theta[:, self._weight].reshape(count * self._outputs, self._features)
        bias = None if self._bias is None else theta[:, self._bias].contiguous()
        value = theta.new_zeros(count, dtype=torch.float64)
        slopes = theta.new_zeros(count, self._outputs, dtype=torch.float64)
        sums = torch.zeros_like(weight) if gradient else None
        room = theta.new_empty(len(weight) * min(ROWS, end - start))
        for first in range(start, end, ROWS):
            last = min(first + ROWS, end)
            rows, targets = prepared.inputs[first:last], prepared.targets[first:last]
            flat = room[: len(weight) * len(rows)].view(len(weight), len(rows))
            torch.mm(weight, rows.T, out=flat)
            self._residuals(flat.view(count, self._outputs, -1), targets, bias, value, slopes)
            if sums is not None:
                sums.addmm_(flat, rows)
        if sums is None:
            return value, None
        gradients = theta.new_empty(count, self._dim, dtype=torch.float64)
        gradients[:, self._weight] = sums.view(count, -1).double()
        if self._bias is not None:
            gradients[:, self._bias] = slopes
        return value, gradients

    def _residuals(
        self, out: Tensor, targets: Tensor, bias: Tensor | None, value: Tensor, slopes: Tensor
    ) -> None:
        """Put gradients in place of the outputs `(particles, outputs, rows)`; add up the rest."""
        if bias is not None:
            out += bias.unsqueeze(-1)
        noise = self._noise
        if noise is not None:
            out.sub_(targets.T).neg_()
            constant = out[0].numel() * math.log(2 * math.pi * noise)
            value -= 0.5 * (out.square().sum((1, 2), dtype=torch.float64) / noise + constant)
            out /= noise
        else:
            labels = targets.expand(len(out), 1, -1)
            out -= out.amax(1, keepdim=True)
            value += out.gather(1, labels).sum((1, 2), dtype=torch.float64)
            out.exp_()
            total = out.sum(1, keepdim=True)
            value -= total.log().sum((1, 2), dtype=torch.float64)
            out /= -total
            out.scatter_add_(1, labels, out.new_ones(1, 1, 1).expand(labels.shape))
        if bias is not None:
            slopes += out.sum(-1, dtype=torch.float64)
