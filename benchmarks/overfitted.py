"""`python -m benchmarks.overfitted`: the default of `fit` on networks that were trained too long.

Two pairs of the gauntlet's development part are overfitted on purpose. Their networks are sampled
by `sbmc.fit` with nothing but training and validation rows, and compared with deep ensembles of
five and ten that are trained in the same way on the same rows: test NLL, accuracy and gradient
passes. The record is written after every method, and a method that is in it is not run again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks import options as shared
from benchmarks.tables import line
from sbmc.prediction.metrics import classification_metrics
from sbmc_studies.gauntlet.data import load_pair_data
from sbmc_studies.gauntlet.fitted import PairRun
from sbmc_studies.gauntlet.methods import METHODS
from sbmc_studies.gauntlet.pairs import get_pair

PAIRS = ("australian-mlp-3x256-overfitted", "digits-mlp-4x64-overfitted")
COMPARED = ("network", "sbmc", "ensemble-5", "ensemble-10")
SEEDS = (0, 1, 2)
QUICK_PAIRS, QUICK_METHODS = ("australian-mlp-1x32",), ("network", "sbmc")


def measure(run: PairRun, method: str) -> dict[str, Any]:
    """One method on one pair with one seed."""
    fitted = METHODS[method](run)
    scores = classification_metrics(fitted.predict(run.data.test[0]), run.data.test[1])
    return {
        "pair": run.pair.name,
        "seed": run.seed,
        "method": method,
        "nll": scores["nll"],
        "accuracy": scores["accuracy"],
        "passes": fitted.passes,
        "seconds": fitted.seconds,
        "ok": fitted.about.get("health", {}).get("ok"),
    }


def overfitted_table(record: dict[str, Any]) -> str:
    """A row for each pair and method: the NLL of every seed, its mean, and what it took."""
    headings = ("pair", "method", "NLL of each seed", "mean NLL", "accuracy", "passes", "health")
    lines = [line(list(headings)), line(["---"] * len(headings))]
    keys = dict.fromkeys((row["pair"], row["method"]) for row in record["rows"])
    for pair, method in keys:
        rows = [row for row in record["rows"] if (row["pair"], row["method"]) == (pair, method)]
        judged = [row["ok"] for row in rows if row["ok"] is not None]
        lines.append(
            line(
                [
                    pair,
                    method,
                    ", ".join(f"{row['nll']:.3f}" for row in rows),
                    f"{_mean(rows, 'nll'):.3f}",
                    f"{100 * _mean(rows, 'accuracy'):.1f} %",
                    f"{_mean(rows, 'passes'):,.0f}",
                    f"{sum(judged)} of {len(judged)} ok" if judged else "–",
                ]
            )
        )
    return "\n".join(lines)


def missed(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Pairs on which the mean NLL of `fit` is not below that of the ensemble of ten."""
    failures = []
    for pair in dict.fromkeys(row["pair"] for row in rows):
        ours, theirs = (
            [row for row in rows if (row["pair"], row["method"]) == (pair, method)]
            for method in ("sbmc", "ensemble-10")
        )
        if ours and theirs and not _mean(ours, "nll") < _mean(theirs, "nll"):
            failures.append(f"{pair}: the NLL is not below that of the ensemble of ten")
    return failures


def _mean(rows: Sequence[dict[str, Any]], name: str) -> float:
    return sum(row[name] for row in rows) / len(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the record lacks, and print the table; 1 if an ensemble of ten is better."""
    options = shared.parse(shared.make_parser("overfitted", __doc__), arguments)
    pairs = QUICK_PAIRS if options.quick else PAIRS
    methods = QUICK_METHODS if options.quick else COMPARED
    rows = json.loads(options.out.read_text("utf-8"))["rows"] if options.out.exists() else []
    there = {(row["pair"], row["seed"], row["method"]) for row in rows}
    for name in pairs:
        for seed in SEEDS[:1] if options.quick else SEEDS:
            wanted = [each for each in methods if (name, seed, each) not in there]
            if not wanted:
                continue
            pair = get_pair(name)
            run = PairRun(pair, load_pair_data(pair.data, seed, None), seed)
            for method in wanted:
                rows.append(measure(run, method))
                rows.sort(key=lambda row: (row["pair"], COMPARED.index(row["method"]), row["seed"]))
                shared.write_record(options, "overfitted", {"rows": rows})
    print(overfitted_table({"rows": rows}))
    return shared.tell_failures(missed(rows))


if __name__ == "__main__":
    sys.exit(main())
