"""`python -m benchmarks.exact_moves`: what the exact moves of `AutoHMC` put right, and how fast.

A network of `benchmarks.nine_networks` with 2 × 64 hidden units, and its posterior. Particles begin
too hot, in two ways, and then make exact moves; what is printed is their mean potential energy U
and their mean log likelihood, as the part that is left of the difference to equilibrium.

1. At temperature 2: states of a long run on the posterior to the power 1/2.
2. After dynamics on mini-batches, as `AutoHMC` makes them if there are too few epochs for more. The
   row without moves is the bias that such a run has.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import sbmc
from benchmarks import options as shared
from benchmarks.nine_networks import load_digits, train
from benchmarks.tables import line
from sbmc.samplers import hmc_kernel
from sbmc.samplers.auto_batches import pass_over_batches
from sbmc.samplers.auto_hmc import FIRST_STEP
from sbmc.samplers.auto_schedule import BATCH_SIZE
from sbmc.samplers.auto_state import AutoRun, AutoState
from sbmc.samplers.noise import IslandNoise
from sbmc.target.minibatch import MiniBatches
from sbmc.target.target import Target

NETWORK, PARTICLES, PASSES = "mlp 2x64", 20, 40
PRIOR: dict[str, float] = {"s": 0.1, "prior_variance": 1.0}
MOVES = (0, 1, 2, 4, 8, 16)
# Leapfrog steps of a move: those of a short one, and those of a quarter period.
SHORT, STEP_SIZE = 8, 0.03
QUARTER = round(math.pi / 2 / STEP_SIZE)


def potential(target: Target, z: Tensor) -> tuple[float, float]:
    """Mean of U and of the log likelihood."""
    value = target.log_likelihood(z)
    return float((z.double().square().sum(-1) / 2 - value).mean()), float(value.mean())


def make_moves(
    target: Target, z: Tensor, *, leapfrog: int, moves: int, seed: int
) -> tuple[Tensor, float]:
    """Positions after some exact moves, and their mean acceptance."""
    rng = IslandNoise([torch.Generator().manual_seed(seed)], len(z))
    state, accepted = hmc_kernel.init(z, target), []
    for _ in range(moves):
        lengths = leapfrog * (1 + 0.3 * (2 * rng.uniform_per_island() - 1))
        state, info = hmc_kernel.step(
            rng,
            state,
            target,
            step_size=torch.full((len(z),), STEP_SIZE, dtype=torch.float64),
            leapfrog=lengths.round().long().expand(len(z)),
        )
        accepted.append(float(info.acceptance.mean()))
    return state.position, sum(accepted) / max(1, len(accepted))


def after_mini_batches(target: Target, start: Tensor, passes: int) -> Tensor:
    """Where particles are after passes over mini-batches, as `AutoHMC` makes them."""
    rng = IslandNoise([torch.Generator().manual_seed(5)], len(start))
    state = AutoState.at(start, rng.normal(start.shape[1], start.dtype))
    run, batches = AutoRun(FIRST_STEP, len(start)), MiniBatches(target)
    for _ in range(passes):
        pass_over_batches(
            rng,
            state,
            [run],
            batches,
            batch_size=BATCH_SIZE,
            blocks=target.blocks,
            passes=passes,
            half=passes,
        )
    return state.position


def measure(*, quick: bool) -> dict[str, Any]:
    """Both starts, both lengths of moves."""
    data = load_digits(0)
    model = train(NETWORK, data, 0)
    target = sbmc.build_target(model, data.train, **PRIOR)
    long = 2 if quick else 60
    anchor = target.prior.to_whitened(target.prior.anchor)
    start = anchor + 0.01 * target.prior.sample(PARTICLES, torch.Generator().manual_seed(1))
    options = {"particles": PARTICLES, "progress": False, "seed": 3, **PRIOR}
    hot = sbmc.fit(
        model,
        data.train,
        sampler=sbmc.AutoHMC(epochs=8 if quick else 3000, settle=None),
        prior=sbmc.Prior(posterior_temperature=2.0),
        **options,
    )
    starts = {
        "temperature 2": target.prior.to_whitened(hot.positions[0]),
        "mini-batches alone": after_mini_batches(target, start, 2 if quick else PASSES),
    }
    reference, _ = make_moves(
        target, starts["mini-batches alone"], leapfrog=QUARTER, moves=long, seed=11
    )
    # Several states of each chain, a quarter of a period apart.
    states = [potential(target, reference)]
    for k in range(1 if quick else 20):
        reference, acceptance = make_moves(target, reference, leapfrog=QUARTER, moves=1, seed=k)
        states.append(potential(target, reference))
    expected = [sum(each) / len(states) for each in zip(*states, strict=True)]
    rows = []
    for name, z in starts.items():
        for leapfrog in (SHORT, QUARTER):
            position, made = z, 0
            for moves in MOVES:
                position, acceptance = make_moves(
                    target, position, leapfrog=leapfrog, moves=moves - made, seed=100 + moves
                )
                made = moves
                energy, value = potential(target, position)
                rows.append(
                    {
                        "start": name,
                        "leapfrog": leapfrog,
                        "moves": moves,
                        "energy": energy,
                        "log_likelihood": value,
                        "acceptance": acceptance if moves else None,
                    }
                )
    return {
        "network": NETWORK,
        "dim": target.dim,
        "step_size": STEP_SIZE,
        "passes": PASSES,
        "particles": PARTICLES,
        "equilibrium": {"energy": expected[0], "log_likelihood": expected[1]},
        "rows": rows,
    }


def exact_moves_table(record: dict[str, Any]) -> str:
    """A row for each start and length: log likelihood and U − U in equilibrium by moves."""
    usual = record["equilibrium"]
    lines = [
        f"U − U in equilibrium | log likelihood, which is {usual['log_likelihood']:.1f} in "
        f"equilibrium; {record['dim']} coordinates, {record['particles']} particles, step size "
        f"{record['step_size']}.",
        "",
        line(["start", "leapfrog steps", *(f"{moves} moves" for moves in MOVES)]),
        line(["---"] * (2 + len(MOVES))),
    ]
    keys = dict.fromkeys((row["start"], row["leapfrog"]) for row in record["rows"])
    for start, leapfrog in keys:
        cells = [
            f"{row['energy'] - usual['energy']:+.0f}, {row['log_likelihood']:.0f}"
            for row in record["rows"]
            if (row["start"], row["leapfrog"]) == (start, leapfrog)
        ]
        lines.append(line([start, str(leapfrog), *cells]))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the record and print the table."""
    options = shared.parse(shared.make_parser("exact_moves", __doc__), arguments)
    record = shared.write_record(options, "exact_moves", measure(quick=options.quick))
    print(exact_moves_table(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
