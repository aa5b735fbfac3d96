"""`python -m benchmarks.living`: a posterior that is updated, beside the closed form and a new fit.

A linear regression with Gaussian noise, whose posterior and evidence are known. The data come all
at once, in two halves, in four quarters, or with one row at the end; after each part the posterior
is updated. Costs are gradient evaluations of single rows, over all particles, as a ratio to the fit
of all data at once. It ends with exit code 1 if a posterior is further from the closed form than
Monte Carlo error explains.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import sbmc
from benchmarks import options as shared
from benchmarks import readme
from benchmarks.tables import line

PAGE = Path(__file__).parents[1] / "docs" / "living.md"
ROWS, DIM, NOISE, PRIOR = 60, 4, 0.5, 1.0
# Where the data end before each update, as shares of all rows.
WAYS = {
    "all at once": (),
    "two halves": (0.5,),
    "four quarters": (0.25, 0.5, 0.75),
    "one row at the end": (1 - 1 / ROWS,),
}
# Of a statistic that is normal: a false alarm once in 30,000 times.
LIMIT = 4.0


class Exact(NamedTuple):
    """The posterior in closed form."""

    mean: Tensor
    covariance: Tensor
    log_evidence: float


def problem() -> tuple[Tensor, Tensor]:
    """Correlated inputs, and targets with noise."""
    rng = torch.Generator().manual_seed(3)
    inputs = torch.randn(ROWS, DIM, generator=rng, dtype=torch.float64)
    inputs = inputs + 0.7 * inputs[:, :1]
    truth = torch.linspace(-1, 2, DIM, dtype=torch.float64)
    noise = torch.randn(ROWS, generator=rng, dtype=torch.float64)
    return inputs, inputs @ truth + math.sqrt(NOISE) * noise


def exact(inputs: Tensor, targets: Tensor) -> Exact:
    """Mean, covariance and log evidence, from the normal equations."""
    identity = torch.eye(DIM, dtype=torch.float64)
    covariance = torch.linalg.inv(inputs.T @ inputs / NOISE + identity / PRIOR)
    spread = PRIOR * inputs @ inputs.T + NOISE * torch.eye(len(inputs), dtype=torch.float64)
    normal = torch.distributions.MultivariateNormal(torch.zeros_like(targets), spread)
    mean = covariance @ inputs.T @ targets / NOISE
    return Exact(mean, covariance, float(normal.log_prob(targets)))


def samplers(quick: bool) -> dict[str, dict[str, Any]]:
    """The options of `fit` for SMC and for HMC."""
    if quick:
        return {
            "SMC": {"sampler": sbmc.SMC(mutations=2), "particles": 20, "islands": 3},
            "HMC": {"sampler": sbmc.HMC(steps=8), "particles": 20, "islands": 1},
        }
    tempering = sbmc.SMC(mutations=6, move=sbmc.HMC(), ess=0.7)
    return {
        "SMC": {"sampler": tempering, "particles": 300, "islands": 20},
        "HMC": {"sampler": sbmc.HMC(steps=60), "particles": 2000, "islands": 1},
    }


def measure(name: str, way: str, quick: bool) -> dict[str, Any]:
    """One sampler and one way in which the data come.

    Args:
        name: in `samplers`.
        way: in `WAYS`.
        quick: a small run.

    Returns:
        Errors in units of the closed form's standard deviations, the evidence, and the cost.
    """
    inputs, targets = problem()
    ends = [round(share * ROWS) for share in WAYS[way]] + [ROWS]
    network = nn.Linear(DIM, 1, bias=False).double()
    with torch.no_grad():
        network.weight.zero_()
    posterior, cost, start = None, [], 0
    for end in ends:
        part = inputs[start:end], targets[start:end]
        if posterior is None:
            posterior = sbmc.fit(
                network,
                part,
                s=1.0,
                prior_variance=PRIOR,
                likelihood=sbmc.Gaussian(noise_variance=NOISE),
                seed=1,
                progress=False,
                **samplers(quick)[name],
            )
        else:
            posterior = posterior.update(part, progress=False)
        particles = posterior.settings["particles"] * len(posterior.islands)
        cost.append(posterior.cost.epochs * particles * end)
        start = end
    assert posterior is not None
    known = exact(inputs, targets)
    states, weights = posterior.positions.flatten(0, 1), posterior.weights.flatten()
    mean = weights @ states
    centred = states - mean
    deviation = (weights @ centred.square()).sqrt()
    right = known.covariance.diagonal().sqrt()
    # Islands of SMC are independent, particles of one island are not quite.
    by_island = (posterior.within.unsqueeze(-1) * posterior.positions).sum(1)
    spread = by_island.std(0) / math.sqrt(len(by_island)) if len(by_island) > 2 else None
    error = right / math.sqrt(len(states)) if spread is None else spread
    evidence = posterior.evidence
    return {
        "sampler": name,
        "way": way,
        "mean_error": float(((mean - known.mean) / right).abs().max()),
        "mean_z": float(((mean - known.mean) / error).abs().max()),
        "deviation_ratio": float((deviation / right - 1).abs().max()),
        "log_evidence": None if evidence is None else evidence.log,
        "log_evidence_error": None if evidence is None else evidence.standard_error,
        "exact_log_evidence": known.log_evidence,
        "gradients": cost,
    }


def missed(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Posteriors that are further from the closed form than chance explains."""
    found = []
    for row in rows:
        what = f"{row['sampler']}, {row['way']}"
        if row["mean_z"] > LIMIT + 1:  # the largest of several coordinates
            found.append(f"{what}: the mean is {row['mean_z']:.1f} standard errors away")
        if row["deviation_ratio"] > 0.1:
            found.append(f"{what}: a standard deviation is off by {row['deviation_ratio']:.0%}")
        if row["log_evidence"] is not None:
            away = abs(row["log_evidence"] - row["exact_log_evidence"])
            # Adapted temperatures bias the evidence by a few per cent.
            if away > LIMIT * row["log_evidence_error"] + 0.05:
                found.append(f"{what}: the log evidence is {away:.2f} away")
    return found


def living_table(record: dict[str, Any]) -> str:
    """A row for each sampler and way."""
    headings = ["sampler", "the data come", "mean", "standard deviations", "log evidence"]
    headings += ["exact", "cost of the last part", "of all parts"]
    lines = [line(headings), line(["---", "---"] + ["---:"] * (len(headings) - 2))]
    whole = {
        row["sampler"]: row["gradients"][0] for row in record["rows"] if row["way"] == "all at once"
    }
    for row in record["rows"]:
        evidence = "–"
        if row["log_evidence"] is not None:
            evidence = f"{row['log_evidence']:.2f} ± {row['log_evidence_error']:.2f}"
        ratios = [value / whole[row["sampler"]] for value in row["gradients"]]
        cells = [row["sampler"], row["way"], f"{row['mean_error']:.3f} σ"]
        cells += [f"{row['deviation_ratio']:.1%}", evidence]
        cells.append("–" if row["log_evidence"] is None else f"{row['exact_log_evidence']:.2f}")
        lines.append(line([*cells, f"{ratios[-1]:.2f}", f"{sum(ratios):.2f}"]))
    return "\n".join(lines)


def fill(text: str, records: Path) -> str:
    """Put the table of the record into the page's text; see `benchmarks.readme`."""
    return readme.fill(text, records, {"living": ("living", living_table)})


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and fill the page; 1 if a posterior is not that of all data."""
    options = shared.parse(shared.make_parser("living", __doc__), arguments)
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of few islands, in a short run
        warnings.simplefilter("ignore", sbmc.HealthWarning)
        for name in samplers(options.quick):
            for way in WAYS:
                print(name, way, file=sys.stderr, flush=True)
                rows.append(measure(name, way, options.quick))
    shared.write_record(options, "living", {"rows": rows})
    print(living_table({"rows": rows}))
    if options.quick:
        return 0
    if options.out == shared.RECORDS / "living.json":
        PAGE.write_text(fill(PAGE.read_text("utf-8"), shared.RECORDS), "utf-8")
    return shared.tell_failures(missed(rows))


if __name__ == "__main__":
    sys.exit(main())
