"""How many examples and particles go through a model together, for a prediction within a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.data import DataLoader

from sbmc.checks import Phrase, require
from sbmc.islands.memory_budget import ALLOWANCE
from sbmc.islands.process_memory import format_bytes, parse_bytes, resident_bytes
from sbmc.likelihoods import Custom
from sbmc.model.data import Examples, tree_map
from sbmc.model.footprint import measure_footprint
from sbmc.model.predicting import PARTICLES_AT_ONCE
from sbmc.posterior.input_batches import input_batches
from sbmc.storage.mapped import is_mapped, release_pages

if TYPE_CHECKING:
    from sbmc.posterior.posterior import Posterior

# Copies of a particle's parameters: in the dtype of the computation, and as a layer wants them.
PARAMETER_COPIES = 2
# Copies of the activations: those of a layer, and what it makes of them.
ACTIVATION_COPIES = 2


class Pieces(NamedTuple):
    """What goes through a model together."""

    examples: int
    particles: int


def pieces_within(
    posterior: Posterior, inputs: Any, batch_size: int | None, memory_limit: int | str
) -> Pieces:
    """The largest pieces of a prediction that stay within a limit.

    Fewer particles come first, since they cost little; then fewer examples.

    Args:
        posterior: what predicts.
        inputs: its inputs.
        batch_size: examples that go through together; by rule if None, and then fewer if needed.
        memory_limit: what this process may take, as `parse_bytes` reads it.

    Returns:
        The pieces.

    Raises:
        BadInput: one example (or the number that was given) and one particle do not fit, or the
            inputs are a `DataLoader`.
    """
    limit = parse_bytes(memory_limit)
    rule = "left out for a DataLoader, whose batches are its own"
    require(not isinstance(inputs, DataLoader), "memory_limit", rule, memory_limit)
    one = next(input_batches(posterior, inputs, 1)[1])
    one = tree_map(lambda tensor: tensor.to(posterior.positions.device), one)
    predictor, split = posterior._predictor_for(one)
    one = one if split is None else split.features(one)
    theta = posterior.positions[0, 0].to(posterior.dtype)
    # Only the memory of the outputs matters here, so their sum stands for a likelihood.
    outputs_alone = Custom(lambda outputs, targets: outputs.flatten(1).sum(-1))
    examples = Examples(one, torch.zeros(1, device=theta.device))
    footprint = measure_footprint(predictor.forward, outputs_alone, examples, theta)
    release_pages(posterior.positions)
    held = resident_bytes() + ALLOWANCE
    # The rows of a mapped file that are read count as memory, until they are released.
    stored = posterior.positions[0, 0].nbytes if is_mapped(posterior.positions) else 0
    each_particle = PARAMETER_COPIES * theta.nbytes + stored

    def peak(pieces: Pieces) -> int:
        each = footprint.shared + pieces.particles * footprint.own
        activations = ACTIVATION_COPIES * pieces.examples * each
        return held + pieces.particles * each_particle + activations

    pieces = Pieces(batch_size or predictor.batch, PARTICLES_AT_ONCE)
    while peak(pieces) > limit and pieces.particles > 1:
        pieces = pieces._replace(particles=pieces.particles // 2)
    while peak(pieces) > limit and pieces.examples > 1 and batch_size is None:
        pieces = pieces._replace(examples=pieces.examples // 2)
    least = peak(pieces)
    rule = f"at least {format_bytes(least)} for a particle and a batch of {pieces.examples}"
    require(least <= limit, "memory_limit", rule, Phrase(format_bytes(limit)))
    return pieces
