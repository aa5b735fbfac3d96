"""`python -m benchmarks.meta_training`: what the paper does not say about its meta-classifier.

By the paper's protocol on MNIST7, with one thing changed at a time:

- More and more in-domain images to learn from, against the same 2,000 out-of-domain ones, for MAP
  and S-HMC∥ (P = 1). Images of the threshold and test sets are never among them.
- Deep ensembles of fewer members.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sbmc.checks import BadInput, require
from sbmc.confidence import evaluate
from sbmc.confidence.protocols import ConfidenceSet
from sbmc.datasets.locate import locate
from sbmc.storage.provenance import hardware_summary, software_versions
from sbmc_studies.data import mnist7
from sbmc_studies.data.confidence_sets import CLASSES, confidence_sets, mnist7_indices
from sbmc_studies.experiments.context import prepare_context
from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.resources import Resources
from sbmc_studies.experiments.run_spec import RunSpec
from sbmc_studies.experiments.settings import resolve
from sbmc_studies.paper.numbers import read_table

RECORD = Path(__file__).parent / "records" / "meta_training.json"
SIZES = (1200, 4800, 12_000, 24_000, 40_000)
METHODS = {"map": "MAP", "s-hmc": "S-HMC∥"}
MEMBERS = (2, 3, 5, 10)
# Metric of the table, and the column of the paper's tables that stands below it.
SHOWN = {
    "default.precision": ("confidence_default", "precision"),
    "default.recall": ("confidence_default", "recall"),
    "default.f1": ("confidence_default", "f1"),
    "optimal_f1.f1": ("confidence_optimal_f1", "f1"),
    "default.auc_roc": ("confidence_default", "auc_roc"),
}
HEADINGS = ("precision at 0.5", "recall at 0.5", "F1 at 0.5", "F1 at the F1-optimal threshold",
            "AUC-ROC")  # fmt: skip


def measure(
    predictors: Mapping[str, Callable[[Any], Any]],
    sets: Mapping[str, ConfidenceSet],
    pool: tuple[Tensor, Tensor],
    sizes: Sequence[int],
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Train and test the meta-classifier with the first images of a pool.

    Args:
        predictors: of each method, inputs -> `Prediction`.
        sets: of the paper's protocol; the in-domain images of `meta_train` are replaced.
        pool: in-domain inputs and labels; none is in another of the sets.
        sizes: how many of them to use.
        seed: of the meta-classifier.

    Returns:
        A row for each size and method.

    Raises:
        BadInput: if there are fewer images.
    """
    inputs, labels = pool
    require(max(sizes) <= len(labels), "sizes", f"at most {len(labels)}", max(sizes))
    rows = []
    for size in sizes:
        larger = dataclasses.replace(sets["meta_train"], inputs=inputs[:size], labels=labels[:size])
        for method, predict in predictors.items():
            start = time.perf_counter()
            report = evaluate(predict, {**sets, "meta_train": larger}, "paper", seed=seed)
            found = {name: report.metrics[f"confidence.{name}"] for name in SHOWN}
            seconds = time.perf_counter() - start
            rows.append({"images": size, "method": method, **found, "seconds": seconds})
    return rows


def mnist7_pool(data_dir: Path | None) -> tuple[Tensor, Tensor]:
    """The 1,200 images of the protocol, then the in-domain training images of no other set."""
    arrays, _ = mnist7.read(locate(mnist7.FILE, data_dir, fetch=mnist7.fetch))
    labels = np.concatenate([arrays["y_train"], arrays["y_test"]])
    inside = np.flatnonzero(arrays["y_train"] < CLASSES)
    # Those to which noise is added for the threshold set are its own first images.
    chosen = inside[~np.isin(inside, mnist7_indices("paper", labels)["threshold"].inside)]
    pixels = torch.from_numpy(arrays["x_train"][chosen]).unsqueeze(1)
    return pixels.float() / 255, torch.from_numpy(labels[chosen]).long()


def fitted(
    method: str, seed: int, resources: Resources, data_dir: Path | None, **overrides: object
) -> Callable[[Any], Any]:
    """Run a method with the study's settings, and return how it predicts."""
    settings = resolve(get_experiment("mnist7"), get_method(method), "paper", overrides)
    folder = None if data_dir is None else str(data_dir)
    spec = RunSpec("mnist7", method, settings, seed, data_dir=folder)
    return get_method(method).run(prepare_context(spec, resources)).posterior.predict


def measure_ensembles(
    members: Sequence[int],
    sets: Mapping[str, ConfidenceSet],
    seed: int,
    resources: Resources,
    data_dir: Path | None = None,
) -> list[dict[str, Any]]:
    """Train and test the meta-classifier on deep ensembles of so many members.

    Args:
        members: how many; the first of a larger ensemble are those of a smaller one.
        sets: of the paper's protocol.
        seed: of the ensembles and of the meta-classifier.
        resources: shares the data.
        data_dir: where to look for data first.

    Returns:
        A row for each.
    """
    rows = []
    for count in members:
        predict = fitted("de", seed, resources, data_dir, particles=count)
        report = evaluate(predict, sets, "paper", seed=seed)
        found = {name: report.metrics[f"confidence.{name}"] for name in SHOWN}
        rows.append({"members": count, "method": "de", **found})
    return rows


def table(record: Mapping[str, Any]) -> str:
    """The rows of growing sets as a Markdown table, the paper's numbers below ours."""
    lines = _head("", "in-domain images")
    for method, words in METHODS.items():
        rows = [row for row in record["rows"] if row["method"] == method]
        lines += [_line(words, f"{row['images']:,}", *_cells(row)) for row in rows]
        lines.append(_paper_line(method))
    return "\n".join(lines)


def members_table(record: Mapping[str, Any]) -> str:
    """The rows of ensembles as a Markdown table."""
    lines = _head("", "members")
    for row in record["ensembles"]:
        lines.append(_line("deep ensemble", str(row["members"]), *_cells(row)))
    return "\n".join([*lines, _paper_line("de")])


def _head(*first: str) -> list[str]:
    headings = [*first, *HEADINGS]
    return [_line(*headings), "|---" + "|---:" * (len(headings) - 1) + "|"]


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [f"{row[name]:.3f}" for name in SHOWN]


def _paper_line(method: str) -> str:
    cells = ["paper", "not given", *(paper_value(method, *place) for place in SHOWN.values())]
    return _line(*(f"*{cell}*" for cell in cells))


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def paper_value(method: str, kind: str, column: str) -> str:
    """A number of the paper's tables, for P = 1 where it has several."""
    rows = [row for row in read_table(f"mnist7_{kind}") if row["method"] == method]
    return next(row[column] for row in rows if row["islands"] in ("", "1"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, measure, write the record and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.meta_training", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="in-domain images")
    parser.add_argument("--members", type=int, nargs="+", default=MEMBERS, help="of ensembles")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data-dir", type=Path, help="where to look for data first")
    parser.add_argument("--threads", type=int, help="torch's threads; its own choice if not given")
    parser.add_argument("--out", type=Path, default=RECORD, help="where the record goes")
    options = parser.parse_args(arguments)
    numbers = {"sizes": options.sizes, "members": options.members, "threads": [options.threads]}
    for name, values in numbers.items():
        if values != [None] and min(values) < 1:
            parser.error(f"`{name}` must be positive, but got {min(values)}.")
    if options.threads:
        torch.set_num_threads(options.threads)
    try:
        resources, folder = Resources(progress=False), options.data_dir
        predictors = {name: fitted(name, options.seed, resources, folder) for name in METHODS}
        sets = confidence_sets("mnist7", "paper", options.data_dir, options.seed)
        pool = mnist7_pool(options.data_dir)
        rows = measure(predictors, sets, pool, options.sizes, options.seed)
        ensembles = measure_ensembles(options.members, sets, options.seed, resources, folder)
    except BadInput as error:
        parser.error(str(error))
    record = {
        "benchmark": "meta_training",
        "experiment": "mnist7",
        "seed": options.seed,
        "threads": torch.get_num_threads(),
        "rows": rows,
        "ensembles": ensembles,
        "hardware": hardware_summary(),
        "versions": software_versions(),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    print(table(record), members_table(record), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
