"""How much memory an example takes on its way through a model: what autograd keeps of it."""

from __future__ import annotations

import torch
from torch import Tensor

from sbmc.likelihoods import Likelihood
from sbmc.model.chunks import Footprint
from sbmc.model.data import Examples, tree_map
from sbmc.model.forward import Forward


def measure_footprint(
    forward: Forward, likelihood: Likelihood, examples: Examples, theta: Tensor
) -> Footprint:
    """Bytes saved for the backward pass, from batches of two sizes; shapes alone decide.

    Args:
        forward: the model.
        likelihood: of its outputs.
        examples: the data, of which one example is used.
        theta: parameters `(dim,)`.

    Returns:
        Bytes for each example: once, and for each particle.
    """

    def saved_bytes(count: int, particles: int) -> int:
        storages: dict[int, int] = {}

        def note(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
            return tensor

        inputs, targets = examples.slice(0, 1)
        inputs = tree_map(lambda t: t.repeat(count, *[1] * (t.ndim - 1)), inputs)
        targets = targets.expand(count, *targets.shape[1:])
        repeated = theta.repeat(particles, 1).requires_grad_()
        prepared = forward.prepare(inputs)
        hooks = torch.autograd.graph.saved_tensors_hooks(note, lambda t: t)
        with torch.enable_grad(), hooks:
            # Held to the end: the address of a storage that is freed may be the next one's.
            each = likelihood.log_prob(forward(repeated, prepared), targets)
            sums = each.sum(-1, dtype=torch.float64)
        total = sum(storages.values())
        del sums
        return total

    one = saved_bytes(2, 1) - saved_bytes(1, 1)
    two = saved_bytes(2, 2) - saved_bytes(1, 2)
    own = max(1, two - one)
    return Footprint(shared=max(0, one - own), own=own)
