"""What it costs that the particles of an island share mini-batches, on a closed-form posterior.

Data that are streamed are read once a pass, so that the particles of an island share batches, and
with them the noise of the stochastic gradient. `python -m benchmarks.shared_batches` samples a
Bayesian linear regression many times over, with batches of each particle's own and with shared
ones, and compares particles with the exact posterior N(μ, Σ), coordinate by coordinate:

    total     mean of (θ − μ)² / Σ over all particles: 1 for an exact sampler
    within    the variance inside an island / Σ: what a posterior of one island shows
    ρ         the correlation of the errors θ − μ of two particles of one island

An island of N particles is worth N / (1 + (N − 1) ρ) independent ones.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import sbmc
from benchmarks import options as shared
from benchmarks import readme
from benchmarks.tables import line
from sbmc.samplers.noise import IslandNoise

PAGE = Path(__file__).parents[1] / "docs" / "big_data.md"
ROWS, FEATURES, NOISE, PARTICLES = 200, 5, 1.0, 10
PASSES = 80
# Name, batch size, and settings: from little noise of the gradient to much of it.
SAMPLERS = (
    sbmc.SGHMC(epochs=5 * PASSES, step_size=0.005, batch_size=50),
    sbmc.SGHMC(epochs=PASSES, step_size=0.02, batch_size=50),
    sbmc.SGHMC(epochs=PASSES, step_size=0.02, batch_size=10),
    sbmc.SGLD(epochs=PASSES, step_size=0.002, batch_size=10),
    sbmc.UBU(epochs=PASSES, step_size=0.02, batch_size=10),
)


class SharedOrders(IslandNoise):
    """Noise whose orders of the data are shared by the particles of an island."""

    def permutations(self, count: int) -> Tensor:
        """One permutation an island, repeated for its particles."""
        rows = [torch.randperm(count, generator=g) for g in self.generators]
        return torch.stack(rows).repeat_interleave(self.particles, 0).to(self.device)

    def select(self, islands: Sequence[int]) -> SharedOrders:
        """The noise of some of the islands."""
        return SharedOrders([self.generators[i] for i in islands], self.particles, self.device)


def make_problem() -> tuple[Any, Tensor, Tensor]:
    """A target, and mean and covariance of its posterior in the weights."""
    rng = torch.Generator().manual_seed(0)
    inputs = torch.randn(ROWS, FEATURES, generator=rng, dtype=torch.float64)
    true = torch.linspace(-1, 1, FEATURES, dtype=torch.float64)
    noise = torch.randn(ROWS, generator=rng, dtype=torch.float64)
    targets = inputs @ true + NOISE**0.5 * noise
    model = nn.Linear(FEATURES, 1, bias=False, dtype=torch.float64)
    nn.init.zeros_(model.weight)
    likelihood = sbmc.Gaussian(noise_variance=NOISE)
    data = inputs, targets.unsqueeze(1)
    target = sbmc.build_target(model, data, s=1.0, prior_variance=1.0, likelihood=likelihood)
    precision = inputs.T @ inputs / NOISE + torch.eye(FEATURES, dtype=torch.float64)
    return target, torch.linalg.solve(precision, inputs.T @ targets / NOISE), precision.inverse()


def statistics(particles: Tensor, mean: Tensor, covariance: Tensor) -> dict[str, float]:
    """Total, within and ρ of particles `(islands, particles, dim)`; see the module's text."""
    errors = (particles - mean) / covariance.diagonal().sqrt()
    total = float(errors.square().mean())
    within = float(errors.var(1).mean())
    of_means = float(errors.mean(1).square().mean())
    count = particles.shape[1]
    correlation = (of_means * count / total - 1) / (count - 1)
    return {"total": total, "within": within, "correlation": correlation}


def measure(sampler: Any, islands: int) -> dict[str, Any]:
    """Sample with own and with shared batches."""
    target, mean, covariance = make_problem()
    found: dict[str, Any] = {
        "sampler": type(sampler).__name__,
        "step_size": sampler.step_size,
        "batch_size": sampler.batch_size,
    }
    for name, kind in (("own", IslandNoise), ("shared", SharedOrders)):
        generators = [torch.Generator().manual_seed(1_000 + i) for i in range(islands)]
        exact = torch.randn(
            islands * PARTICLES,
            FEATURES,
            generator=torch.Generator().manual_seed(1),
            dtype=mean.dtype,
        )
        start = mean + exact @ torch.linalg.cholesky(covariance).T  # nothing is left to forget
        runs = sampler.run(target, kind(generators, PARTICLES), target.prior.to_whitened(start))
        whitened = torch.stack([run.draws[-1] for run in runs])
        particles = target.prior.to_parameters(whitened.flatten(0, 1)).view(whitened.shape)
        found[name] = statistics(particles, mean, covariance)
    return found


def table(record: dict[str, Any]) -> str:
    """A row for each sampler."""
    names = ["sampler", "step size", "batch", "total, own", "total, shared", "within, own"]
    names += ["within, shared", "ρ, own", "ρ, shared", "10 particles are worth"]
    lines = [line(names), line(["---"] + ["---:"] * (len(names) - 1))]
    for row in record["rows"]:
        own, common = row["own"], row["shared"]
        worth = PARTICLES / (1 + (PARTICLES - 1) * max(0.0, common["correlation"]))
        cells = [row["sampler"], f"{row['step_size']:g}", str(row["batch_size"])]
        for name in ("total", "within", "correlation"):
            cells += [f"{own[name]:.2f}", f"{common[name]:.2f}"]
        lines.append(line([*cells, f"{worth:.1f}"]))
    return "\n".join(lines)


def fill(text: str, records: Path) -> str:
    """Put the table of the record into the page's text; see `benchmarks.readme`."""
    return readme.fill(text, records, {"shared_batches": ("shared_batches", table)})


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and fill the page."""
    parser = shared.make_parser("shared_batches", __doc__)
    options = shared.parse(parser, arguments)
    islands = 8 if options.quick else 400
    rows = [measure(sampler, islands) for sampler in SAMPLERS[: 1 if options.quick else None]]
    shared.write_record(options, "shared_batches", {"islands": islands, "rows": rows})
    print(table({"rows": rows}))
    if not options.quick and options.out == shared.RECORDS / "shared_batches.json":
        PAGE.write_text(fill(PAGE.read_text("utf-8"), shared.RECORDS), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
