"""`python -m benchmarks.settling`: what ending early saves, what it costs, and what extending buys.

Networks of the gauntlet's development part, trained as its list says and handed to `sbmc.fit` with
unseen rows, in three ways: all of the budget is spent; chains end when predictions have settled, as
by default; and chains that have not settled go on, for up to four times the budget. NLL is that of
test rows, which nothing else has seen.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

import sbmc
from benchmarks import options as shared
from benchmarks.tables import line
from sbmc.prediction.metrics import nll
from sbmc_studies.gauntlet.data import load_pair_data
from sbmc_studies.gauntlet.pairs import Pair, gauntlet_pairs
from sbmc_studies.gauntlet.training import BATCHES, train_batch

PAIRS = ("digits-mlp-2x64", "australian-mlp-1x32", "glass-mlp-2x128")
SEEDS = (0, 1, 2)
TRAININGS = (5, 100)
WAYS: dict[str, dict[str, Any]] = {
    "all": {"stop_early": False},
    "early": {},
    "extended": {"extend": 4},
}


def measure_pair(pair: Pair, seed: int, trainings: Sequence[float]) -> list[dict[str, Any]]:
    """Train a network, and fit it in every way at every budget."""
    data = load_pair_data(pair.data, seed)
    (trained,) = train_batch(pair, data, seed, BATCHES[0])
    rows = []
    for count in trainings:
        for way, settings in WAYS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", sbmc.HealthWarning)
                posterior = sbmc.fit(
                    trained.model,
                    data.train,
                    validation=data.validation,
                    budget=sbmc.Budget(count, **settings),
                    seed=seed,
                    progress=False,
                )
            inputs, labels = data.test
            sampled = [report for report in posterior.islands if report.steps]
            spent = posterior.cost.total_epochs - posterior.cost.anchor_epochs
            rows.append(
                {
                    "pair": pair.name,
                    "seed": seed,
                    "trainings": count,
                    "way": way,
                    "spent": spent / trained.epochs,
                    "islands": len(sampled),
                    "settled": sum(report.settled is True for report in sampled),
                    "nll": nll(posterior.predict(inputs).probs, labels),
                }
            )
    return rows


def measure(*, quick: bool) -> dict[str, Any]:
    """All pairs of the development part that are listed above."""
    pairs = [pair for pair in gauntlet_pairs("development") if pair.name in PAIRS]
    seeds, trainings = SEEDS, TRAININGS
    if quick:
        pairs, seeds, trainings = pairs[-1:], SEEDS[:1], (0.5,)
    return {
        "rows": [row for p in pairs for seed in seeds for row in measure_pair(p, seed, trainings)]
    }


def settling_table(record: dict[str, Any]) -> str:
    """A row for each pair and budget, means over the seeds."""
    lines = [
        "Spent: in trainings of the network, over all chains. Settled: islands of all seeds. NLL: "
        "on test rows; of the other two ways, the mean difference ± a standard error over seeds.",
        "",
        line(
            [
                "pair",
                "budget",
                "spent: all",
                "early",
                "extended",
                "settled: early",
                "extended",
                "NLL: all",
                "early",
                "extended",
            ]
        ),
        line(["---", *["---:"] * 9]),
    ]
    keys = dict.fromkeys((row["pair"], row["trainings"]) for row in record["rows"])
    for pair, trainings in keys:
        ways = {
            way: [
                row
                for row in record["rows"]
                if (row["pair"], row["trainings"], row["way"]) == (pair, trainings, way)
            ]
            for way in WAYS
        }
        cells = [pair, f"{trainings:g}"]
        cells += [f"{mean(row['spent'] for row in ways[way]):.1f}" for way in WAYS]
        for way in ("early", "extended"):
            settled, islands = (
                sum(row[key] for row in ways[way]) for key in ("settled", "islands")
            )
            cells.append(f"{settled} of {islands}")
        cells.append(f"{mean(row['nll'] for row in ways['all']):.3f}")
        cells += [_difference(ways["all"], ways[way]) for way in ("early", "extended")]
        lines.append(line(cells))
    return "\n".join(lines)


def _difference(some: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> str:
    """The mean of the paired differences in NLL, with its standard error."""
    differences = [b["nll"] - a["nll"] for a, b in zip(some, others, strict=True)]
    error = stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else math.nan
    return f"{mean(differences):+.3f} ± {error:.3f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the record and print the table."""
    options = shared.parse(shared.make_parser("settling", __doc__), arguments)
    record = shared.write_record(options, "settling", measure(quick=options.quick))
    print(settling_table(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
