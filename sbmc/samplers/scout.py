"""Scouting: stochastic-gradient Hamiltonian dynamics that carry chains off their starting points.

A gradient over all data buys one step. Over one of M batches it buys a step as good for travelling,
at 1/M of the price. With whitened position z, momentum p, friction γ and batch m, a step is

    z ← z + ε/2·p,   p ← c·p + sqrt(1 − c²)·ξ,   z ← z + ε/2·p,   p ← p + ε·(M·∇ℓₘ(z) − z),

with c = exp(−γε) and ξ ~ N(0, I). The noise of the batches heats the directions that the data hold
by about ε·M/(2γ) times their curvature, and no step is rejected: the target is *not* invariant. So
scouting says where chains begin, and an exact sampler has the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from sbmc.log import logger
from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.snapshot import (
    NO_CHECKPOINTS,
    Checkpointer,
    Snapshot,
    generator_states,
    set_generators,
)
from sbmc.target.target import Target

BATCHES = 10
# Close to critical for directions that the data leave free; what the batches heat, it cools.
FRICTION = 3.0
# The batches come in an order that is the same for every island: each depends on its own noise
# alone, and is the same whether it runs alone or folded into a batch of islands.
ORDER_SEED = 0
# The mean square of a momentum is 1 in equilibrium. Beyond this, the step size was too large.
HOTTEST = 25.0


def scout(
    rng: IslandNoise,
    position: Tensor,
    target: Target,
    *,
    epochs: int,
    step_size: float,
    batches: int = BATCHES,
    tell: Callable[[int], None] | None = None,
    checkpointer: Checkpointer = NO_CHECKPOINTS,
) -> Tensor:
    """Let every particle travel from `position` by stochastic-gradient Hamiltonian dynamics.

    Args:
        rng: a momentum is drawn for each particle at the start, and noise at every step.
        position: `(particles, dim)`, whitened.
        target: log likelihood and gradient, of data that can be split.
        epochs: passes over the data; each makes `batches` steps.
        step_size: ε, in whitened units.
        batches: M, how many disjoint batches the data are split into. Each pass takes every batch
            once, in a new order.
        tell: called after every pass with how many there have been.
        checkpointer: is offered the snapshot after every pass, as "scout".

    Returns:
        Where the particles are after it, `(particles, dim)`; those that were thrown out, because
        the step size is too large for them, are back at their start. It costs `epochs` evaluations
        for each particle, and they are counted as the target's.
    """
    parts = target.split(batches)
    order = torch.Generator().manual_seed(ORDER_SEED)
    keep = math.exp(-FRICTION * step_size)
    renew = math.sqrt(1 - keep**2)
    dim, dtype = position.shape[1], position.dtype
    generators = [*rng.generators, order]
    snapshot = checkpointer.restore("scout")
    if snapshot is None:
        z, p, made = position.clone(), rng.normal(dim, dtype), 0
    else:
        z, p = (snapshot.tensors[name].to(position.device) for name in ("position", "momentum"))
        made = snapshot.values["epochs"]
        set_generators(generators, snapshot.tensors["generators"])
    for done in range(made + 1, epochs + 1):
        for part in torch.randperm(batches, generator=order).tolist():
            z = z + step_size / 2 * p
            p = keep * p + renew * rng.normal(dim, dtype)
            z = z + step_size / 2 * p
            p = p + step_size * (batches * parts[part](z).gradient - z)
        target.evaluations.gradient += len(z)
        checkpointer.offer_snapshot("scout", partial(_snapshot, z, p, generators, done))
        if tell is not None:
            tell(done)
    checkpointer.discard("scout")
    calm = p.square().mean(-1, keepdim=True) < HOTTEST  # false for NaN too
    lost = len(z) - int(calm.sum())
    if lost:
        words = "scouting threw %d of %d particles out; a smaller `scout_step_size` would keep them"
        logger.warning(words, lost, len(z))
    return torch.where(calm, z, position)


def _snapshot(
    position: Tensor, momentum: Tensor, generators: Sequence[torch.Generator], epochs: int
) -> Snapshot:
    states = generator_states(generators)
    tensors = {"position": position, "momentum": momentum, "generators": states}
    return Snapshot(tensors, {"epochs": epochs})
