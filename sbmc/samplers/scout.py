"""Scouting: stochastic-gradient Hamiltonian dynamics that carry chains off their starting points.

A gradient over all data allows one step. A gradient over one of M batches allows a step that is as
good for travelling, at 1/M of the cost. With whitened position z, momentum p, friction γ and batch
m, a step is

    z ← z + ε/2·p,   p ← c·p + sqrt(1 − c²)·ξ,   z ← z + ε/2·p,   p ← p + ε·(M·∇ℓₘ(z) − z),

with c = exp(−γε) and ξ ~ N(0, I). The noise of the batches heats the directions that the data hold
by about ε·M/(2γ) times their curvature, and no step is rejected: the target is *not* invariant. So
scouting only decides where chains start, and an exact sampler does the rest.
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
# Close to critical for directions that the data leave free; it cools what the batches heat.
FRICTION = 3.0
# The order of the batches is the same for every island. So an island depends only on its own noise,
# and is the same whether it runs alone or in a batch of islands.
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
    report: Callable[[int], None] | None = None,
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
        report: called after every pass with the number of passes so far.
        checkpointer: is offered a snapshot named "scout" after every pass.

    Returns:
        The positions of the particles at the end, `(particles, dim)`. Particles whose energy
        exploded, because the step size is too large for them, are back at their start. It costs
        `epochs` evaluations for each particle, which the target counts.
    """
    parts = target.split(batches)
    order = torch.Generator().manual_seed(ORDER_SEED)
    decay = math.exp(-FRICTION * step_size)
    renew = math.sqrt(1 - decay**2)
    dim, dtype = position.shape[1], position.dtype
    generators = [*rng.generators, order]
    snapshot = checkpointer.restore("scout")
    if snapshot is None:
        z, p, epochs_done = position.clone(), rng.normal(dim, dtype), 0
    else:
        z, p = (snapshot.tensors[name].to(position.device) for name in ("position", "momentum"))
        epochs_done = snapshot.values["epochs"]
        set_generators(generators, snapshot.tensors["generators"])
    for done in range(epochs_done + 1, epochs + 1):
        for part in torch.randperm(batches, generator=order).tolist():
            z = z + step_size / 2 * p
            p = decay * p + renew * rng.normal(dim, dtype)
            z = z + step_size / 2 * p
            p = p + step_size * (batches * parts[part](z).gradient - z)
        target.evaluations.gradient += len(z)
        checkpointer.offer_snapshot("scout", partial(_snapshot, z, p, generators, done))
        if report is not None:
            report(done)
    checkpointer.discard("scout")
    calm = p.square().mean(-1, keepdim=True) < HOTTEST  # false for NaN too
    thrown_out = len(z) - int(calm.sum())
    if thrown_out:
        message = (
            "scouting threw %d of %d particles out; a smaller `scout_step_size` would keep them"
        )
        logger.warning(message, thrown_out, len(z))
    return torch.where(calm, z, position)


def _snapshot(
    position: Tensor, momentum: Tensor, generators: Sequence[torch.Generator], epochs: int
) -> Snapshot:
    states = generator_states(generators)
    tensors = {"position": position, "momentum": momentum, "generators": states}
    return Snapshot(tensors, {"epochs": epochs})
