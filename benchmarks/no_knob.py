"""`python -m benchmarks.no_knob`: MNIST7 without a knob, at the cost of ten trainings in all.

The study's network is trained on its 1,000 training rows, with its 200 validation rows set aside:
as `sbmc run mnist7 --method map` trains it, or by stochastic weight averaging (SWA) with the
library's settings. Then `sbmc.fit(model, rows, budget=9)` may cost nine more trainings. Nothing is
chosen: s, the prior, the sampler and the lengths are the library's affair. What is reported is of
the 7,000 test images. The record is written after every seed, and a seed that is in it is not run
again.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

import torch

import sbmc
from benchmarks import options as shared
from benchmarks.tables import line
from sbmc.baselines import train_swa
from sbmc.datasets import DataBundle, digits
from sbmc.prediction.metrics import classification_metrics
from sbmc_studies.data import mnist7
from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.experiments.networks import paper_cnn

ANCHORS = ("map", "swa")
SEEDS = (0, 1, 2, 3, 4)
TRAININGS = 9
REQUIRED_ACCURACY, REQUIRED_NLL = 0.94, 0.20


def measure(
    bundle: DataBundle, anchor: str, seed: int, max_epochs: int | None = None
) -> dict[str, Any]:
    """Train and sample with one seed.

    Args:
        bundle: training, validation and test rows.
        anchor: how the network is trained, `"map"` or `"swa"`.
        seed: of the initial weights, the order of the data and the sampler.
        max_epochs: of the training, if not the study's.

    Returns:
        Scores of the network and of the posterior, its weights, and epochs of each.
    """
    model = _train(bundle, anchor, seed, max_epochs)
    began = time.perf_counter()
    with warnings.catch_warnings():
        # The verdict is in the record.
        warnings.simplefilter("ignore", sbmc.HealthWarning)
        posterior = sbmc.fit(
            model,
            bundle.train,
            validation=bundle.validation,
            budget=TRAININGS,
            seed=seed,
            progress=False,
        )
    seconds = time.perf_counter() - began
    alone = sbmc.fit(model, bundle.train, s=0.0, progress=False)
    assert posterior.mixture is not None
    return {
        "anchor": anchor,
        "seed": seed,
        "network": _scores(alone, bundle),
        "posterior": _scores(posterior, bundle),
        "training_epochs": model.history.epochs,
        "sampling_epochs": posterior.cost.total_epochs - posterior.cost.anchor_epochs,
        "seconds": seconds,
        "health": posterior.health.as_dict(),
        "mixture": posterior.mixture.as_dict(),
        "budget": posterior.settings["budget"],
    }


def _train(bundle: DataBundle, anchor: str, seed: int, max_epochs: int | None) -> Any:
    """The network, with its history as `.history`."""
    experiment = get_experiment("mnist7")
    variance = experiment.settings["prior_variance"]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = paper_cnn(tuple(bundle.train[0].shape[1:]), bundle.classes)
    if anchor == "swa":
        short = {"epochs": max_epochs, "warmup_epochs": 1} if max_epochs else {}
        return train_swa(
            network, bundle.train, prior_variance=variance, seed=seed, progress=False, **short
        )
    training = {**experiment.training, **({"max_epochs": max_epochs} if max_epochs else {})}
    return sbmc.train_map(
        network,
        bundle.train,
        bundle.validation,
        prior_variance=variance,
        initial="prior",
        seed=seed,
        progress=False,
        **training,
    )


def _scores(posterior: sbmc.Posterior, bundle: DataBundle) -> dict[str, float]:
    prediction = posterior.predict(bundle.test[0])
    assert isinstance(prediction, sbmc.Prediction)
    found = classification_metrics(prediction, bundle.test[1])
    return {"accuracy": found["accuracy"], "nll": found["nll"]}


def no_knob_table(record: dict[str, Any]) -> str:
    """A row for each anchor and seed, and means beside what is required."""
    headings = ("anchor", "seed", "network", "posterior", "epochs: training + sampling", "health")
    lines = [line(list(headings)), line(["---"] * len(headings))]
    for anchor in dict.fromkeys(row["anchor"] for row in record["rows"]):
        rows = [row for row in record["rows"] if row["anchor"] == anchor]
        for row in rows:
            lines.append(
                line(
                    [
                        anchor,
                        str(row["seed"]),
                        _words(row["network"]),
                        _words(row["posterior"]),
                        f"{row['training_epochs']:,} + {row['sampling_epochs']:,.0f}",
                        "ok" if row["health"]["ok"] else "not ok",
                    ]
                )
            )
        means = [_words(mean_scores(rows, part)) for part in ("network", "posterior")]
        lines.append(line([anchor, "mean", *means, "–", "–"]))
    required = {"accuracy": REQUIRED_ACCURACY, "nll": REQUIRED_NLL}
    lines.append(line(["required", "–", "–", _words(required), "–", "–"]))
    return "\n".join(lines)


def mean_scores(rows: Sequence[dict[str, Any]], part: str) -> dict[str, float]:
    """Means over the seeds of the network or of the posterior."""
    return {name: sum(row[part][name] for row in rows) / len(rows) for name in ("accuracy", "nll")}


def _words(scores: dict[str, float]) -> str:
    return f"{100 * scores['accuracy']:.2f} %, NLL {scores['nll']:.3f}"


def missed(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What the means fall short of."""
    means = mean_scores(rows, "posterior")
    failures = []
    if not means["accuracy"] >= REQUIRED_ACCURACY:
        failures.append(f"accuracy {means['accuracy']:.4f}, required {REQUIRED_ACCURACY}")
    if not means["nll"] <= REQUIRED_NLL:
        failures.append(f"NLL {means['nll']:.4f}, required {REQUIRED_NLL}")
    return failures


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the record lacks, and print the table; 1 if the SWA anchor misses its goal."""
    options = shared.parse(shared.make_parser("no_knob", __doc__), arguments)
    rows = json.loads(options.out.read_text("utf-8"))["rows"] if options.out.exists() else []
    bundle = digits.load() if options.quick else mnist7.load()
    there = {(row["anchor"], row["seed"]) for row in rows}
    for anchor in ANCHORS:
        for seed in SEEDS[:1] if options.quick else SEEDS:
            if (anchor, seed) in there:
                continue
            rows.append(measure(bundle, anchor, seed, max_epochs=4 if options.quick else None))
            shared.write_record(options, "no_knob", {"rows": rows})
    print(no_knob_table({"rows": rows}))
    averaged = [row for row in rows if row["anchor"] == "swa"]
    return 0 if options.quick else shared.tell_failures(missed(averaged))


if __name__ == "__main__":
    sys.exit(main())
