"""One temperature of a tempered SMC sampler, for a batch of islands.

The targets are π_λ(z) ∝ L(z)^λ N(z; 0, I), with λ from 0 to 1. A step raises λ, multiplies the
weights by L^(λ' − λ), adds the log of their mean to the log evidence, resamples, and moves the
particles by a kernel that leaves π_λ' invariant (Algorithm 2 of the paper). What decides λ', how
ancestors are chosen and how particles move are arguments; this file knows none of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.smc.increments import Increment, effective_sample_size, tilt
from sbmc.samplers.smc.resampling import Resampling

# Relative: the bisection for the temperature leaves the ESS on its target but for rounding.
ESS_MARGIN = 1e-6


class SMCState(NamedTuple):
    """What the next temperature needs. Rows of `particles` are islands × population.

    The likelihoods are in the state of the moves, so that a change of temperature costs nothing.
    """

    particles: Any  # state of the moves: a NamedTuple of tensors (islands * population, ...)
    log_weights: Tensor  # (islands, population) float64, normalised
    temperature: Tensor  # (islands,) float64
    log_evidence: Tensor  # (islands,) float64
    roots: Tensor  # (islands, population): which first draw a particle descends from


class Selection(NamedTuple):
    """Ancestors, as indices into the population, and the weights they carry on."""

    ancestors: Tensor  # (islands, selected)
    log_weights: Tensor  # (islands, selected), normalised
    distinct: Tensor  # (islands,): how many different ones


class SMCInfo(NamedTuple):
    """The info of a temperature."""

    ess: Tensor  # (islands,) before resampling
    distinct: Tensor  # (islands,) ancestors
    moves: Any  # the info of `move`


# (noise, log weights (islands, population)) -> the selection
Select = Callable[[IslandNoise, Tensor], Selection]
# (noise, state of the selected, temperature (islands,)) -> (state of the population, info, copies):
# `copies` says how many members of the new population come from each of the selected.
Move = Callable[[IslandNoise, Any, Tensor], tuple[Any, Any, int]]


def first_state(particles: Any, islands: int) -> SMCState:
    """The state at temperature 0: draws from the prior, of equal weight; evidence 1.

    Args:
        particles: the moves' state at the draws, `(islands * population, ...)`.
        islands: how many islands they belong to.

    Returns:
        The state.
    """
    population = len(particles.position) // islands
    nothing = torch.zeros(islands, dtype=torch.float64)
    return SMCState(
        particles,
        torch.full((islands, population), -math.log(population), dtype=torch.float64),
        nothing,
        nothing.clone(),
        torch.arange(population).repeat(islands, 1),
    )


def next_temperatures(state: SMCState, increment: Increment) -> Tensor:
    """The temperature `(islands,)` that comes after each island's own."""
    values = _log_likelihood(state)
    following = [
        increment(values[i], state.log_weights[i], float(state.temperature[i]))
        for i in range(len(values))
    ]
    return torch.tensor(following, dtype=torch.float64)


def tempered_step(
    rng: IslandNoise, state: SMCState, *, increment: Increment, resample: Select, move: Move
) -> tuple[SMCState, SMCInfo]:
    """Raise the temperature of every island, weight, resample and move its particles.

    Args:
        rng: the islands' noise.
        state: where they are.
        increment: gives an island's next temperature from its likelihoods and weights.
        resample: chooses ancestors by weight.
        move: leaves the target at the new temperature invariant.

    Returns:
        The new state and the info.
    """
    islands, population = state.log_weights.shape
    temperature = next_temperatures(state, increment)
    change = (temperature - state.temperature).unsqueeze(1)
    weights = tilt(state.log_weights, _log_likelihood(state), change)
    gain = torch.logsumexp(weights, 1)
    weights = weights - gain.unsqueeze(1)

    chosen = resample(rng, weights)
    rows = (chosen.ancestors + population * torch.arange(islands).unsqueeze(1)).flatten()
    selected = type(state.particles)(*(part[rows] for part in state.particles))
    particles, move_info, copies = move(rng, selected, temperature)

    roots = state.roots.gather(1, chosen.ancestors).repeat_interleave(copies, 1)
    after = SMCState(
        particles,
        (chosen.log_weights - math.log(copies)).repeat_interleave(copies, 1),
        temperature,
        state.log_evidence + gain,
        roots,
    )
    return after, SMCInfo(effective_sample_size(weights), chosen.distinct, move_info)


def _log_likelihood(state: SMCState) -> Tensor:
    return state.particles.log_likelihood.double().cpu().view(state.log_weights.shape)


def select_always(scheme: Resampling, count: int) -> Select:
    """Resample at every temperature, as the paper does: `count` ancestors of equal weight."""

    def select(rng: IslandNoise, log_weights: Tensor) -> Selection:
        rows = [scheme(g, w, count) for g, w in zip(rng.generators, log_weights.exp(), strict=True)]
        even = torch.full((len(rows), count), -math.log(count), dtype=torch.float64)
        return _selection(torch.stack(rows), even)

    return select


def select_below(scheme: Resampling, threshold: float) -> Select:
    """Resample an island when its ESS is at most `threshold` · N; else let it keep its weights."""

    def select(rng: IslandNoise, log_weights: Tensor) -> Selection:
        count = log_weights.shape[1]
        low = effective_sample_size(log_weights) <= threshold * count * (1 + ESS_MARGIN)
        ancestors, carried = torch.arange(count).repeat(len(log_weights), 1), log_weights.clone()
        for i in low.nonzero().flatten().tolist():
            ancestors[i] = scheme(rng.generators[i], log_weights[i].exp(), count)
            carried[i] = -math.log(count)
        return _selection(ancestors, carried)

    return select


def _selection(ancestors: Tensor, log_weights: Tensor) -> Selection:
    distinct = torch.tensor([len(row.unique()) for row in ancestors])
    return Selection(ancestors, log_weights, distinct)
