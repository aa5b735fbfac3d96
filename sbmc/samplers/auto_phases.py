"""The last two phases of the self-tuning sampler, for islands that run as one batch.

After the passes over mini-batches (`auto_batches`) there are

1. `step_on_all_data`: the same dynamics on all data, steered by their energy errors;
2. `make_exact_moves`: HMC trajectories with a Metropolis test, at a step size that is tuned by the
   first of them and then frozen.

Each function advances every island that takes part by one step or one move, and changes state and
runs in place. All noise of an island comes from its own generator, and each island has
its own step size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import torch

from sbmc.samplers import hmc_kernel, langevin, lowrank
from sbmc.samplers.auto_batches import FRICTION
from sbmc.samplers.auto_restarts import put_back, rows_of
from sbmc.samplers.auto_state import AutoRun, AutoState
from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.particle_steps import factors_after_move, factors_after_step, shortened
from sbmc.samplers.thermostat import error_limit, factor_for_errors
from sbmc.target.target import Target

LARGEST_STEP = 1.0
# The fastest growth of a step size on all data: in the first quarter of the steps, or in the first
# so many, and later; and the last part of the steps, whose geometric mean is handed on.
SEARCH_GROWTH, SEARCH_STEPS, GROWTH, AVERAGED = 2.0, 8, 1.1, 1 / 3
# The acceptance that exact moves are tuned to, and the bounds of one correction.
WANTED_ACCEPTANCE, LEAST_CORRECTION, LARGEST_CORRECTION = 0.8, 0.5, 1.3
# Leapfrog steps of the moves that tune, at most.
TUNING_STEPS = 12
QUARTER_PERIOD, JITTER, FEWEST_MOVES, MOST_LEAPFROG_STEPS = math.pi / 2, 0.3, 4, 1_000


def step_on_all_data(
    rng: IslandNoise,
    state: AutoState,
    runs: Sequence[AutoRun],
    target: Target,
    *,
    made: int,
    steps: int,
    half: float,
) -> None:
    """One step of the dynamics on all data, and the next step size from its energy errors.

    Args:
        rng: noise of the islands.
        state: their particles, with the log likelihood and gradient of all data.
        runs: the islands.
        target: log likelihood and gradient.
        made: how many of these steps have been made.
        steps: how many there will be in all.
        half: the epochs after which particles that are put back are counted.
    """
    before = state.dynamics
    sizes = torch.cat([run.particle_steps for run in runs]).to(state.log_likelihood.device)
    moved, info = langevin.step(rng, before, target, step_size=sizes, friction=FRICTION)
    errors = langevin.energy_error(before, moved, info)
    thrown = ~(errors < error_limit(state.position.shape[1]))  # what is not a number, too
    if not bool(thrown.any()):
        for field, fresh in zip(state, moved, strict=False):
            field.copy_(fresh)
    else:
        for field, fresh in zip(state, moved, strict=False):
            stays = thrown if field.ndim == 1 else thrown.unsqueeze(-1)
            field.copy_(torch.where(stays, field, fresh))
    state.healthy.copy_(state.position)
    for i, run in enumerate(runs):
        rows = rows_of(i, rng)
        if bool(thrown[rows].any()):
            # The state before the step is healthy, but its momentum led nowhere.
            put_back(rng, state, runs, i, thrown[rows].cpu(), late=run.epochs >= half)
        run.non_finite += int((~torch.isfinite(errors[rows])).sum())
        growth = SEARCH_GROWTH if made < max(SEARCH_STEPS, steps / 4) else GROWTH
        factor = factor_for_errors(errors[rows], growth)
        run.step_size = min(run.step_size * factor, LARGEST_STEP)
        run.factors = factors_after_step(run.particle_factors, errors[rows].cpu())
        if made >= (1 - AVERAGED) * steps:
            run.log_sizes += math.log(run.step_size)
            run.sizes += 1
        run.epochs += 1
        run.steps += 1


def hand_on_step_size(run: AutoRun) -> None:
    """Begin the exact moves with the geometric mean of the last step sizes on all data."""
    if run.sizes:
        run.step_size = math.exp(run.log_sizes / run.sizes)
        run.log_sizes, run.sizes = 0.0, 0


def make_exact_moves(
    rng: IslandNoise,
    state: AutoState,
    runs: Sequence[AutoRun],
    target: Target,
    *,
    tuned_until: int,
    ends: Sequence[int],
) -> None:
    """One HMC move with a Metropolis test; it tunes the step size if it begins early enough.

    Args:
        rng: noise of the islands.
        state: their particles, with the log likelihood and gradient of all data.
        runs: the islands.
        target: log likelihood and gradient.
        tuned_until: the epochs after which the step size is frozen.
        ends: the epochs of each island, which its last move exhausts.
    """
    jitter = rng.uniform_per_island().tolist()
    counts = [
        leapfrog_steps(run.step_size, u, run.epochs, tuned_until, end)
        for run, u, end in zip(runs, jitter, ends, strict=True)
    ]
    here = hmc_kernel.HMCState(
        state.position, state.log_likelihood, state.gradient, *lowrank.identity(state.position)
    )
    # Moves of a single step are what very short runs have: shorter ones would get nowhere.
    steps = [
        run.particle_steps
        if run.epochs < tuned_until or count == 1
        else run.particle_steps * shortened(run.particles, run.sampling_steps)
        for run, count in zip(runs, counts, strict=True)
    ]
    moved, info = hmc_kernel.step(
        rng,
        here,
        target,
        step_size=torch.cat(steps).to(state.log_likelihood.device),
        leapfrog=rng.per_particle(counts).long(),
    )
    state.position.copy_(moved.position)
    state.log_likelihood.copy_(moved.log_likelihood)
    state.gradient.copy_(moved.gradient)
    for i, run in enumerate(runs):
        rows = rows_of(i, rng)
        acceptance = info.acceptance[rows].double().cpu()
        mean = float(acceptance.mean())
        run.acceptance.append(mean)
        run.leapfrog.append(counts[i])
        run.non_finite += int(info.non_finite[rows].sum())
        if run.epochs < tuned_until:
            run.tuning_moves += 1
            gain = 1 / math.sqrt(run.tuning_moves)
            run.step_size *= correction(mean) ** gain
            wanted = torch.tensor([correction(each) for each in acceptance.tolist()])
            run.factors = factors_after_move(run.particle_factors, wanted, gain)
        else:
            full = steps[i] == run.particle_steps
            run.note_move(acceptance, full.cpu(), state.log_likelihood[rows].cpu())
        run.epochs += counts[i]
        run.steps += 1


def leapfrog_steps(
    step_size: float, uniform: float, made: int, tuned_until: int, epochs: int
) -> int:
    """Leapfrog steps of the next exact move; they depend on no position.

    A trajectory has the length π/2, or less if that is what it takes to fit four of them into the
    epochs after tuning; times a draw from 1 ± 0.3. The last one takes all that is left. Moves that
    tune have twelve steps at most, and are no longer than the others: over half a period the
    energy errors of the prior's directions would cancel, and all step sizes seem good.

    Args:
        step_size: ε.
        uniform: a draw from [0, 1).
        made: epochs so far.
        tuned_until: the epochs after which the step size is frozen.
        epochs: which the last move exhausts.

    Returns:
        A number of at least 1, no larger than what is left.

    Examples:
        >>> [leapfrog_steps(0.05, 0.5, made, 100, 400) for made in (80, 100, 360)]
        [12, 31, 40]
    """
    tuning = made < tuned_until
    left = (tuned_until if tuning else epochs) - made
    room = math.inf if tuning else (epochs - tuned_until) * step_size / FEWEST_MOVES
    jittered = min(QUARTER_PERIOD, room) * (1 + JITTER * (2 * uniform - 1))
    most = TUNING_STEPS if tuning else MOST_LEAPFROG_STEPS
    wanted = min(most, max(1, round(jittered / step_size)))
    return wanted if left >= 1.5 * wanted else left


def correction(acceptance: float) -> float:
    """The factor of a step size that would bring the acceptance to what is wanted.

    An energy error with the standard deviation σ is accepted at 2 Φ(−σ/2), and σ goes like ε².

    Args:
        acceptance: mean acceptance at this step size.

    Returns:
        The factor, within bounds.

    Examples:
        >>> [round(correction(a), 2) for a in (0.0, 0.6, 0.8, 1.0)]
        [0.5, 0.7, 1.0, 1.3]
    """
    normal = NormalDist()

    def spread(value: float) -> float:
        return -2 * normal.inv_cdf(min(max(value, 0.01), 0.99) / 2)

    ratio = math.sqrt(spread(WANTED_ACCEPTANCE) / spread(acceptance))
    return min(max(ratio, LEAST_CORRECTION), LARGEST_CORRECTION)
