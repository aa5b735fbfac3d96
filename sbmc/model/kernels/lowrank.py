"""A frozen linear layer with a low-rank adjustment: value and gradient by products, no autograd.

For rows X of the data, the frozen W₀ and the factors A (rank × features) and B (classes × rank) of
each particle,

    U = X Aᵀ,    Z = X W₀ᵀ + U Bᵀ,    R = ∂ log p(Y | Z) / ∂Z,
    ∂/∂B = Rᵀ U,    ∂/∂A = (R B)ᵀ X

X W₀ᵀ is the dearest of these products, and is shared by all particles. Rows go through in pieces,
so that outputs of one particle and one piece are all that is held of the outputs.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from sbmc.likelihoods import Categorical, Likelihood
from sbmc.model.chunks import Chunks
from sbmc.model.kernels.native.plan import NotAChain
from sbmc.model.parameters import ParameterSpace

ROWS = 256
# Particles that share one product with the frozen layer, and the memory of gradients they need.
PARTICLES = 16
# Parts of the data whose sums are added in float64, and which threads take side by side.
PARTS = 8
# A probability below this has lost digits, or all of them, in float32.
FAR_FROM_ZERO = 1e-30


class Adjusted(NamedTuple):
    """The layers of `base(x) + up(down(x))`, by their names in the model."""

    base: tuple[str, nn.Linear]
    down: tuple[str, nn.Linear]
    up: tuple[str, nn.Linear]


class Rows(NamedTuple):
    """The data as they are."""

    inputs: Tensor  # (examples, features)
    labels: Tensor  # (examples,)


class LowRankKernel:
    """Value and gradient of a low-rank adjustment of a frozen layer over classes.

    Args:
        layers: the frozen layer and the two factors.
        space: the sampled parameters, which have to be the two factors' weights.
        likelihood: categorical.
        inputs: a few examples.

    Raises:
        NotAChain: it is not that.
    """

    name = "low-rank"

    def __init__(
        self, layers: Adjusted, space: ParameterSpace, likelihood: Likelihood, inputs: Tensor
    ) -> None:
        if not isinstance(likelihood, Categorical):
            raise NotAChain("no classes")
        if inputs.ndim != 2 or inputs.dtype not in (torch.float32, torch.float64):
            raise NotAChain(f"inputs {tuple(inputs.shape)} of {inputs.dtype}")
        if any(layer.bias is not None for _, layer in layers):
            raise NotAChain("a bias beside the factors")
        names = [f"{name}.weight" for name, _ in (layers.down, layers.up)]
        if sorted(names) != sorted(space.names):
            raise NotAChain("factors that are not all that is sampled")
        ends = [sum(space.sizes[:i]) for i in range(len(space.sizes) + 1)]
        where = {n: slice(ends[i], ends[i + 1]) for i, n in enumerate(space.names)}
        self._down, self._up = where[names[0]], where[names[1]]
        self._base = layers.base[1].weight.detach()
        self._classes, self._features = self._base.shape
        self._rank = int(layers.down[1].out_features)
        self._dim = space.dim

    def chunks(self, examples: int) -> Chunks:
        """Whole pieces of rows, `PARTS` times or a few more; particles that share the base."""
        pieces = max(1, examples // (PARTS * ROWS))
        return Chunks(min(examples, pieces * ROWS), PARTICLES)

    def prepared_bytes(self, examples: int) -> int:
        """Nothing is made of the data."""
        return 0

    def working_bytes(self, particles: int) -> int:
        """Memory of a call: sums of gradients in both precisions, factors, and outputs of rows."""
        element = self._base.element_size()
        rows = ROWS * (3 * self._classes + 3 * particles * self._rank)
        return element * (3 * particles * self._dim + rows) + 8 * particles * self._dim

    def prepare(self, inputs: Tensor, targets: Tensor) -> Rows:
        """The data as they are."""
        return Rows(inputs, targets)

    def __call__(
        self, theta: Tensor, prepared: Rows, start: int, end: int, *, gradient: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """Sums over the examples `start` to `end`; see `sbmc.model.kernels.choice.Kernel`."""
        theta = theta.detach()
        count, rank = len(theta), self._rank
        down = theta[:, self._down].reshape(count * rank, self._features)
        up = theta[:, self._up].reshape(count, self._classes, rank)
        value = theta.new_zeros(count, dtype=torch.float64)
        down_sum = torch.zeros_like(down) if gradient else None
        up_sum = torch.zeros_like(up) if gradient else None
        for first in range(start, end, ROWS):
            rows = prepared.inputs[first : min(first + ROWS, end)]
            labels = prepared.labels[first : first + len(rows)].unsqueeze(-1)
            base = torch.mm(rows, self._base.T)
            inner = torch.mm(rows, down.T).view(len(rows), count, rank)
            slopes = torch.empty_like(inner) if gradient else inner
            for particle in range(count):
                own = inner[:, particle]
                out = torch.addmm(base, own, up[particle].T)
                probs = out.softmax(-1)
                value[particle] += _log_probs(out, probs, labels).sum(dtype=torch.float64)
                if up_sum is None:
                    continue
                # Now softmax − 1[label], minus the slope: the sign is put right below, for nothing.
                probs.scatter_add_(-1, labels, probs.new_full((1, 1), -1.0).expand(labels.shape))
                up_sum[particle].addmm_(probs.T, own, alpha=-1)
                torch.mm(probs, up[particle], out=slopes[:, particle])
            if down_sum is not None:
                down_sum.addmm_(slopes.view(len(rows), -1).T, rows, alpha=-1)
        if down_sum is None or up_sum is None:
            return value, None
        gradients = theta.new_empty(count, self._dim, dtype=torch.float64)
        gradients[:, self._down] = down_sum.view(count, -1).double()
        gradients[:, self._up] = up_sum.view(count, -1).double()
        return value, gradients


def _log_probs(out: Tensor, probs: Tensor, labels: Tensor) -> Tensor:
    """Log probability of each label, from probabilities where they are far enough from zero."""
    chosen = probs.gather(-1, labels)
    values = chosen.log()
    # `not >`: also where they are no numbers, so that these are passed on.
    poor = (~(chosen > FAR_FROM_ZERO)).squeeze(-1)
    if bool(poor.any()):
        values[poor] = out[poor].log_softmax(-1).gather(-1, labels[poor])
    return values
