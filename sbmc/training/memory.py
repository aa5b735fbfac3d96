"""How many members of an ensemble are trained together, within a limit on memory."""

from __future__ import annotations

from torch import Tensor

from sbmc.checks import Phrase, require
from sbmc.islands.memory_budget import ALLOWANCE
from sbmc.islands.process_memory import format_bytes, resident_bytes
from sbmc.model.footprint import measure_footprint
from sbmc.model.forward import Forward
from sbmc.target.memory_needs import PASSES
from sbmc.training.setup import TrainingData

# Vectors of a member's size at the worst moment of a step: its start, its weights, the best and the
# kept ones, two moments, the gradient and what Adam makes of it, and the parts of the prior.
VECTORS = 14
# Copies of all members' weights at the end: as they were trained, joined, and in the result.
RESULTS = 3


def members_within(
    limit: int,
    members: int,
    most: int,
    forward: Forward,
    theta: Tensor,
    data: TrainingData,
    batch_size: int,
) -> int:
    """How many members may be trained together.

    Args:
        limit: bytes that this process may take.
        members: how many are trained in all.
        most: how many are trained together without a limit.
        forward: the model as a function of many parameter vectors.
        theta: the weights of the model, `(dim,)`.
        data: the training data, with the likelihood.
        batch_size: examples in a mini-batch.

    Returns:
        From 1 to `most`.

    Raises:
        BadInput: one member alone does not fit.
    """
    footprint = measure_footprint(forward, data.likelihood, data.train, theta)
    activations = PASSES * min(batch_size, len(data.train)) * (footprint.shared + footprint.own)
    held = resident_bytes() + ALLOWANCE + RESULTS * members * theta.nbytes
    one = VECTORS * theta.nbytes + activations
    rule = f"at least {format_bytes(held + one)}, which one member at a time takes"
    require(held + one <= limit, "memory_limit", rule, Phrase(format_bytes(limit)))
    return min(most, (limit - held) // one)
