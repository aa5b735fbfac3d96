"""`python -m benchmarks.rounding`: how far rounding drives two ranks and one process apart.

The default sampler moves the same chains by the evaluations of one process, by those of two ranks,
and by those of one process whose inputs are multiplied by 1 ± 1e-7. What is recorded is the largest
difference from the first, in any coordinate, at some evaluations and at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import sbmc
from benchmarks import options as shared
from benchmarks import readme
from benchmarks.tables import line
from sbmc.samplers.noise import IslandNoise
from sbmc.target.shards.engine import ShardedEngine
from sbmc.target.target import Evaluation, Target

PAGE = Path(__file__).parents[1] / "docs" / "ranks.md"
EXAMPLES, BATCHED_EXAMPLES, PARTICLES, SCALE = 300, 2_000, 4, 0.1
EPOCHS, BATCHED_EPOCHS = 160, 40
SHOWN = (1, 5, 20, 80, 160)
OTHER_INPUTS = 1e-7
RANKS = "two ranks"
OTHER = "one process, other inputs"
DTYPES = {"float32": torch.float32, "float64": torch.float64}


class Recorded(Target):
    """A target that keeps the positions at which it is evaluated."""

    positions: list[Tensor]

    def __call__(self, positions: Tensor) -> Evaluation:
        """The same as ever."""
        self.positions.append(positions.detach().double().clone())
        return super().__call__(positions)


def chains(
    seed: int, dtype: torch.dtype, examples: int, epochs: int, *, ranks: int = 1, noise: float = 0.0
) -> tuple[list[Tensor], Tensor]:
    """Positions at each evaluation of all data, and at the end, in the network's coordinates."""
    rng = torch.Generator().manual_seed(0)
    inputs = torch.randn(examples, 5, dtype=torch.float64, generator=rng)
    labels = (inputs[:, 0] > inputs[:, 1]).long()
    signs = torch.randint(0, 2, inputs.shape, generator=rng) * 2 - 1
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2)).to(dtype)
    data = (inputs * (1 + noise * signs)).to(dtype), labels
    target = sbmc.build_target(model, data, s=SCALE)
    engine = target.engine if ranks == 1 else ShardedEngine(target.engine, sbmc.Shards(ranks))
    recorded = Recorded(engine, target.prior, target.power)
    recorded.positions = []
    generator = torch.Generator().manual_seed(seed)
    noise_of_islands = IslandNoise([generator], PARTICLES)
    start = 0.01 * torch.randn(PARTICLES, target.dim, generator=generator, dtype=dtype)
    (run,) = sbmc.AutoHMC(epochs=epochs, settle=None).run(recorded, noise_of_islands, start)
    to_parameters = target.prior.to_parameters
    kept = [to_parameters(each.to(dtype)).double() for each in recorded.positions]
    return kept, to_parameters(run.draws[-1].to(dtype)).double()


def largest(one: Tensor, other: Tensor) -> float:
    """Of all coordinates of all particles."""
    return float((one - other).abs().max())


def measure_row(run: Callable[..., tuple[list[Tensor], Tensor]], **other: Any) -> dict[str, float]:
    """How far the other run is from that of one process."""
    ours, theirs = run(), run(**other)
    pairs = list(zip(ours[0], theirs[0], strict=False))
    found = {str(n): largest(*pairs[n - 1]) for n in SHOWN if n <= len(pairs)}
    return {**found, "end": largest(ours[1], theirs[1])}


def measure(seeds: Sequence[int], epochs: int) -> dict[str, Any]:
    """The rows of the table, and mini-batches."""
    rows = []
    for name, dtype in DTYPES.items():
        for seed in seeds:
            run = partial(chains, seed, dtype, EXAMPLES, epochs)
            others: dict[str, dict[str, Any]] = {RANKS: {"ranks": 2}}
            if name == "float32":
                others[OTHER] = {"noise": OTHER_INPUTS}
            for what, other in others.items():
                rows.append(
                    {"what": what, "dtype": name, "seed": seed, **measure_row(run, **other)}
                )
    batched = {
        name: max(
            measure_row(
                partial(chains, seed, dtype, BATCHED_EXAMPLES, min(epochs, BATCHED_EPOCHS)), ranks=2
            )["end"]
            for seed in seeds
        )
        for name, dtype in DTYPES.items()
    }
    return {"rows": rows, "batched": batched}


def rounding_table(record: dict[str, Any]) -> str:
    """The largest differences from one process."""
    columns = [*map(str, SHOWN), "end"]
    lines = [line(["", "dtype", *columns]), line(["---", "---", *["---:"] * len(columns)])]
    for row in record["rows"]:
        cells = [
            f"{row[each]:.0e}".replace("e-0", "e-") if each in row else "–" for each in columns
        ]
        lines.append(line([f"{row['what']}, seed {row['seed']}", row["dtype"], *cells]))
    single, double = (f"{record['batched'][name]:.0e}".replace("e-0", "e-") for name in DTYPES)
    lines += [
        "",
        f"With half of {BATCHED_EPOCHS} epochs on mini-batches of {BATCHED_EXAMPLES:,} examples, "
        f"two ranks ended at most {single} from one process in float32, and {double} in float64.",
    ]
    return "\n".join(lines)


fill = partial(readme.fill, tables={"rounding": ("rounding", rounding_table)})


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the record and fill the page's table."""
    options = shared.parse(shared.make_parser("rounding", __doc__), arguments)
    seeds, epochs = ((0,), 30) if options.quick else ((0, 1, 2), EPOCHS)
    record = shared.write_record(options, "rounding", measure(seeds, epochs))
    print(rounding_table(record))
    if options.out == shared.RECORDS / options.out.name:
        PAGE.write_text(fill(PAGE.read_text("utf-8"), shared.RECORDS), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
