"""Estimates of the log likelihood and its gradient from mini-batches.

Each particle has a batch of its own, or all share one where data are streamed.

With n examples, of which a particle sees the batch B, the estimates are

    ℓ̂(z) = (n / |B|) Σ_{i∈B} log p(y_i | x_i, θ(z))

and its gradient in z, each times the target's power. Over the batches that a uniformly random B may
be, their mean is what the target gives for all data. A batch that is shorter than the others has
its own |B|.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sbmc.model.chunks import SMALLEST_CHUNK
from sbmc.model.data import Examples, Inputs, tree_map
from sbmc.model.threads import even_chunks, side_by_side, thread_count
from sbmc.target.streaming import EngineStream
from sbmc.target.target import Evaluation, Target

# Multiplications below which a chunk of particles is not worth a thread of its own.
LEAST_WORK = 2**20
# Activations of one call. Steps are many and small: calls are dearer here than a full cache.
BATCH_BYTES = 24 * 2**20


def particle_chunks(particles: int, work: int) -> list[slice]:
    """Chunks of particles, one for each thread, or fewer where there is little to do.

    Args:
        particles: how many.
        work: multiplications for one of them.

    Examples:
        >>> particle_chunks(10, work=1)
        [slice(0, 10, None)]
    """
    return even_chunks(particles, min(thread_count(), particles * work // LEAST_WORK))


class MiniBatches:
    """Evaluates a target's model, data and likelihood on batches of examples.

    Args:
        target: the target on all data. What is evaluated here is counted there, in whole epochs:
            n examples seen by one particle are one.

    Attributes:
        seen: examples that count towards the next whole epoch.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._examples = target.engine.rows
        self.seen = 0
        self._kernel = target.engine.batch_kernel()
        self._factors: dict[int, Tensor] = {}
        if self._kernel is not None:
            return
        self._parts = target.engine.parts()
        # Each particle reads examples of its own, so nothing is shared between particles.
        each = self._parts.footprint.shared + self._parts.footprint.own
        self._pairs = max(SMALLEST_CHUNK, BATCH_BYTES // each)
        if target.engine.limited:
            chunks = target.engine.chunks
            self._pairs = min(self._pairs, chunks.examples * chunks.particles)

    @property
    def kernel(self) -> str | None:
        """The code that computes without autograd; None where autograd does the work."""
        return None if self._kernel is None else self._kernel.name

    def __len__(self) -> int:
        """The number of examples, n."""
        return self._examples

    def __call__(self, positions: Tensor, index: Tensor) -> Evaluation:
        """Estimate log likelihood and gradient, at a cost of |B|/n epochs for each particle.

        Args:
            positions: whitened, `(particles, dim)`.
            index: the examples of each particle's batch, `(particles, batch)`.

        Returns:
            The estimates, scaled by n / |B|. Non-finite values are passed on.
        """
        self._count(index.numel())
        return self.evaluate(positions, index, self._target.power * len(self) / index.shape[1])

    def evaluate(self, positions: Tensor, index: Tensor, scale: float) -> Evaluation:
        """Sums over batches and their gradients, times `scale`; nothing is counted."""
        if self._kernel is not None:
            return self._by_kernel(positions, index, scale)
        return self._by_autograd(positions, index, scale)

    @property
    def stream(self) -> EngineStream | None:
        """The stream of data that are not held; None if all examples are at hand."""
        return self._target.engine.stream

    def shared(self, positions: Tensor, batch: Examples) -> Evaluation:
        """The same estimates from one batch that all particles share.

        Args:
            positions: whitened, `(particles, dim)`.
            batch: examples of the stream.
        """
        self._count(len(positions) * len(batch))
        target = self._target
        sums = Target(target.engine.on(batch), target.prior, target.power)(positions)
        scale = len(self) / len(batch)
        return Evaluation(scale * sums.log_likelihood, sums.gradient.mul_(scale))

    def _by_kernel(self, positions: Tensor, index: Tensor, scale: float) -> Evaluation:
        """Particles are independent: chunks of them side by side, the same bits in any chunks."""
        kernel = self._kernel
        assert kernel is not None
        to_parameters, factor = (
            self._target.prior.to_parameters,
            self._factor(index.shape[1], scale),
        )
        index = index if index.stride(1) == 1 else index.contiguous()
        gradients = torch.empty_like(positions, memory_format=torch.contiguous_format)

        def of_particles(rows: slice) -> Tensor:
            theta = to_parameters(positions[rows])
            return kernel(theta, index[rows], factor, gradients[rows])

        chunks = particle_chunks(len(positions), index.shape[1] * positions.shape[1])
        if len(chunks) == 1 or not self._target.engine.shareable:
            values = kernel(to_parameters(positions), index, factor, gradients)
        else:
            values = torch.cat(list(side_by_side(of_particles, chunks)))
        return Evaluation(scale * values, gradients)

    def _factor(self, batch: int, scale: float) -> Tensor:
        """What the gradient of a sum over so many examples is multiplied by, `(dim,)`."""
        if batch not in self._factors:
            wide = scale * self._target.prior.scale.double()
            self._factors[batch] = wide.to(self._target.prior.scale.dtype)
        return self._factors[batch]

    def _by_autograd(self, positions: Tensor, index: Tensor, scale: float) -> Evaluation:
        count, batch = index.shape
        values = torch.empty(count, dtype=torch.float64, device=positions.device)
        gradients = torch.empty_like(positions)
        together = max(1, self._pairs // batch)
        for start in range(0, count, together):
            rows = slice(start, min(start + together, count))
            value, gradient = self._with_gradient(positions[rows], index[rows])
            values[rows] = scale * value
            gradients[rows] = (scale * gradient).to(positions.dtype)
        return Evaluation(values, gradients)

    def _with_gradient(self, positions: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """Sums over a batch for each particle, in pieces if it is long."""
        prior = self._target.prior
        theta = prior.to_parameters(positions).requires_grad_()
        value = torch.zeros(len(positions), dtype=torch.float64, device=positions.device)
        gradient = torch.zeros(positions.shape, dtype=torch.float64, device=positions.device)
        for piece in index.split(self._pairs, dim=1):
            inputs, targets = self._gather(piece)
            with torch.enable_grad():  # whatever the caller's mode is
                outputs = self._parts.forward(theta, inputs, stacked=True)
                each = self._parts.likelihood.log_prob(outputs, targets, stacked=True)
                sums = each.sum(-1, dtype=torch.float64)
                (part,) = torch.autograd.grad(sums.sum(), theta)
            value += sums.detach()
            gradient += part
        return value, gradient * prior.scale

    def _gather(self, index: Tensor) -> tuple[Inputs, Tensor]:
        """Prepared inputs and targets at `index`, each `(particles, batch, ...)`."""
        parts, flat = self._parts, index.reshape(-1)

        def take(tensor: Tensor) -> Tensor:
            return tensor.index_select(0, flat)  # much faster than `tensor[index]`

        if parts.prepared is None:
            inputs = parts.forward.prepare(tree_map(take, parts.examples.inputs))
        else:
            inputs = tree_map(take, parts.prepared)
        targets = take(parts.examples.targets).unflatten(0, index.shape)
        return tree_map(lambda t: t.unflatten(0, index.shape), inputs), targets

    def _count(self, examples: int) -> None:
        """Add to the target's count what makes whole epochs, and keep the rest."""
        whole, self.seen = divmod(self.seen + examples, len(self))
        self._target.evaluations.gradient += whole
