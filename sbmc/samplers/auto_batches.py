"""The first phase of the self-tuning sampler: passes over the data in mini-batches.

Langevin dynamics whose step size is steered by the heat of the particles, for islands that run as
one batch. State and runs are changed in place. All noise of an island comes from its own generator,
and each island has its own step size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import pairwise

import torch

from sbmc.samplers import langevin
from sbmc.samplers.auto_restarts import (
    by_island,
    healthy_energy_of,
    put_back,
    renew_momenta,
    rows_of,
)
from sbmc.samplers.auto_state import AutoRun, AutoState
from sbmc.samplers.inside_a_pass import Pace
from sbmc.samplers.noise import IslandNoise
from sbmc.samplers.orders import BatchesInOrder
from sbmc.samplers.passes import draw_order, draw_seed, estimates_of_pass
from sbmc.samplers.snapshot import Snapshot
from sbmc.samplers.thermostat import HeatMeter, decide, excess_heat, too_fast
from sbmc.target.minibatch import MiniBatches

FRICTION = 1.0
# Steps from one reading of the heat to the next, about.
WINDOW = 8
LARGEST_BATCH_STEP = 0.5
# Over this last part of the dynamics on mini-batches the step size is annealed, to this part of it.
ANNEALED, LEAST_ANNEALING = 0.3, 0.1
# In the last half nothing may blow up any more: steps keep this distance from what was found.
MARGIN = 0.8
# Factors when particles blow up: most of an island, or a few.
MOST_BLOWN, FEW_BLOWN = 0.5, 0.9


def pass_over_batches(
    rng: IslandNoise,
    state: AutoState,
    runs: Sequence[AutoRun],
    batches: MiniBatches,
    *,
    batch_size: int,
    blocks: Sequence[int],
    passes: int,
    half: float,
    begun: Snapshot | None = None,
    offer: Callable[[Snapshot], None] | None = None,
) -> None:
    """One pass over the data in mini-batches, each particle in an order of its own.

    Args:
        rng: noise of the islands.
        state: their particles.
        runs: the islands, which have all made the same number of passes.
        batches: gives estimates of log likelihood and gradient.
        batch_size: examples per batch.
        blocks: how many coordinates each layer has.
        passes: how many there will be in all.
        half: the epochs after which particles that are put back are counted.
        begun: of a pass that was stopped in its middle, what it offered.
        offer: is given, now and then, what the pass needs besides state and runs to go on.
    """
    if begun is None:
        order, seed, done = draw_order(rng, batches), draw_seed(rng, batches), 0
    else:
        order = begun.tensors["order"].to(state.position.device)
        seed, done = begun.values["seed"], begun.values["batches"]
        batches.seen = begun.values["seen"]
    parts = BatchesInOrder(order, len(batches), batch_size)
    estimates = estimates_of_pass(batches, parts, batch_size, seed=seed, done=done)
    windows = max(1, len(parts) // WINDOW)
    bounds = [round(k * len(parts) / windows) for k in range(windows + 1)]
    made = runs[0].epochs
    late = made >= half
    virials: list[list[float]] = [[] for _ in runs]
    if begun is not None:
        bounds = [bound for bound in bounds if bound >= done]
        virials = [list(each) for each in begun.values["virials"]]
    everyone = torch.ones(rng.particles, dtype=torch.bool)
    pace = Pace()
    with closing(estimates):
        for first, last in pairwise(bounds):
            meter = HeatMeter(len(runs), rng.particles, blocks, state.position)
            arrived, spoiled = [0.0] * len(runs), [False] * len(runs)
            for k in range(first, last):
                left = 1 - (made + k / len(parts)) / passes
                annealing = max(LEAST_ANNEALING, min(1.0, left / ANNEALED))
                # Their product is kept while the step size is annealed, so that what is hot cools
                # in as many steps as ever.
                friction = FRICTION / annealing
                # The first batch of all shows the energy at the start, and moves nothing.
                still = made == 0 and k == 0
                safe = MARGIN * annealing if late else annealing
                sizes = [0.0 if still else safe * run.step_size for run in runs]
                moved, info = langevin.step(
                    rng,
                    state.dynamics,
                    next(estimates),
                    step_size=rng.per_particle(sizes),
                    friction=friction,
                )
                meter.add(moved, info)
                for field, fresh in zip(state, moved, strict=False):
                    field.copy_(fresh)
                if still:
                    state.healthy_energy.copy_(meter.energies())
                    for i, run in enumerate(runs):
                        run.energy = healthy_energy_of(state, rng, i)
                for i, run in enumerate(runs):
                    run.arrived = 1 - (1 - run.arrived) * math.exp(-2 * friction * sizes[i])
                    arrived[i] += run.arrived / (last - first)
                blown, fast = too_fast(moved, info.non_finite, state.healthy_energy)
                for i, rows in by_island(rng, fast):
                    renew_momenta(rng, state, runs, i, rows)
                for i, rows in by_island(rng, blown):
                    many = 2 * int(rows.sum()) > len(rows)
                    put_back(rng, state, runs, i, everyone if many else rows, late=late)
                    runs[i].step_size *= MOST_BLOWN if many else FEW_BLOWN
                    runs[i].excess, spoiled[i] = None, True
            readings = meter.read()
            for i, (run, heat) in enumerate(zip(runs, readings, strict=True)):
                if spoiled[i]:
                    continue
                virials[i].append(heat.virial)
                time = (last - first) * friction * sizes[i]
                excess = excess_heat(
                    heat,
                    blocks,
                    particles=rng.particles,
                    steps=last - first,
                    arrived=arrived[i],
                    time=time,
                )
                decision = decide(excess, heat.energy, run.excess, run.energy)
                run.excess, run.energy = excess.likely, heat.energy
                if decision.healthy:
                    island = rows_of(i, rng)
                    state.healthy[island] = state.position[island]
                    state.healthy_energy[island] = meter.energies()[island]
                if decision.put_back:
                    put_back(rng, state, runs, i, everyone, late=late)
                elif decision.renew:
                    renew_momenta(rng, state, runs, i, everyone)
                # What blows up in the last half of the run is counted, so nothing grows there any
                # more.
                growing = annealing == 1 and made + last / len(parts) < half
                if growing or decision.factor < 1:
                    run.step_size = min(run.step_size * decision.factor, LARGEST_BATCH_STEP)
            # The heat is read anew from here on, so there is nothing else to be kept.
            if offer is not None and last < len(parts) and pace.due():
                noted = [list(each) for each in virials]
                values = {"batches": last, "seed": seed, "seen": batches.seen, "virials": noted}
                offer(Snapshot({"order": order}, values))
        for _ in estimates:
            pass  # none is left, but the end of a stream has checks of its own
    for i, run in enumerate(runs):
        run.epochs += 1
        run.steps += len(parts)
        run.sampling_steps += len(parts) if late else 0
        if virials[i]:
            run.virial = sum(virials[i]) / len(virials[i])
