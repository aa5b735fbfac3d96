"""`python -m benchmarks.distillation --threads 1`: one network instead of eighty.

Data are digits and MNIST7. The teacher has 80 networks: the paper's CNN, S-HMC with s = 0.1, 8
islands of 10 particles, as the study samples them. The student is what `posterior.distil()` makes
of it, with nothing chosen. Both are judged on the test rows and on the out-of-domain groups of the
study, of which the student has seen neither an example nor the generator. The same teacher, thinned
and stored in bfloat16, is beside them. Times are of the processor, since other work on the machine
does not count in them; both predict the same 1,000 rows again and again, in turn, and the ratio of
medians is reported. The record is written after every seed, and a seed that is in it is not run
again.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sbmc
from benchmarks import options as shared
from benchmarks import readme
from benchmarks.tables import line
from sbmc.datasets import DataBundle
from sbmc.prediction.metrics import classification_metrics
from sbmc_studies.data import load_dataset
from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.experiments.networks import paper_cnn

PAGE = Path(__file__).parents[1] / "docs" / "distillation.md"
DATASETS = ("digits", "mnist7")
SEEDS = (0, 1, 2)
THINNED = (20, 10)
BATCH = 1_000
# How far students may be from their teachers in the mean over seeds, and how much faster.
ALLOWED = {"accuracy": 0.003, "nll": 0.01, "auroc": 0.05}
REQUIRED_RATIO = 30.0

Predict = Callable[[Any], Any]


def measure(name: str, seed: int, *, quick: bool, repeats: int) -> dict[str, Any]:
    """Sample, distil and thin with one seed.

    Args:
        name: of the data set.
        seed: of training, sampling and distilling.
        quick: tiny sizes, for tests.
        repeats: of each timing.

    Returns:
        Scores of the teacher, the student and the thinned teachers, and what each takes.
    """
    bundle = load_dataset(name)
    posterior = _teacher(name, bundle, seed, quick)
    began = time.process_time()
    distilled = posterior.distil(seed=seed, **({"steps": 20, "perturbations": 50} if quick else {}))
    seconds = time.process_time() - began
    rows = bundle.test[0][torch.arange(BATCH) % len(bundle.test[0])]
    assert distilled.fidelity is not None
    return {
        "dataset": name,
        "seed": seed,
        "networks": distilled.settings["particles"],
        "student": str(distilled.architecture),
        "weights": sum(weight.numel() for weight in distilled.network.parameters()),
        "distilling_seconds": seconds,
        "fidelity": distilled.fidelity.as_dict(),
        "teacher_scores": _scores(posterior.predict, bundle),
        "student_scores": _scores(distilled.predict, bundle),
        **_times(posterior.predict, distilled.predict, rows, repeats),
        "thinned": [_thinned(posterior, k, bundle) for k in (THINNED[-1:] if quick else THINNED)],
        "bytes": posterior.positions.nbytes,
    }


def _teacher(name: str, bundle: DataBundle, seed: int, quick: bool) -> sbmc.Posterior:
    """The posterior of 80 networks, as the study makes it."""
    experiment = get_experiment(name)
    variance = experiment.settings["prior_variance"]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = paper_cnn(tuple(bundle.train[0].shape[1:]), bundle.classes)
    training = {**experiment.training, **({"max_epochs": 2} if quick else {})}
    model = sbmc.train_map(
        network,
        bundle.train,
        bundle.validation,
        prior_variance=variance,
        initial="prior",
        seed=seed,
        progress=False,
        **training,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sbmc.HealthWarning)
        return sbmc.fit(
            model,
            bundle.train_and_validation,
            s=0.1,
            prior_variance=variance,
            sampler=sbmc.HMC(epochs=4 if quick else 160),
            particles=3 if quick else 10,
            islands=4 if quick else 8,
            seed=seed,
            progress=False,
        )


def _scores(predict: Predict, bundle: DataBundle) -> dict[str, Any]:
    """Accuracy, NLL, and by group the AUROC of telling it from the test rows by epistemic."""
    inside = predict(bundle.test[0])
    found = classification_metrics(inside, bundle.test[1])
    outside = {group: predict(inputs) for group, inputs in bundle.ood.items()}
    auroc = {group: _auroc(inside, [each]) for group, each in outside.items()}
    auroc["all groups"] = _auroc(inside, list(outside.values()))
    return {"accuracy": found["accuracy"], "nll": found["nll"], "auroc": auroc}


def _auroc(inside: Any, outside: Sequence[Any]) -> float:
    from sklearn.metrics import roc_auc_score

    scores: list[Tensor] = [inside.epistemic, *(each.epistemic for each in outside)]
    labels = [0] * len(inside) + [1] * sum(map(len, outside))
    return float(roc_auc_score(labels, torch.cat(scores).numpy()))


def _times(teacher: Predict, student: Predict, rows: Tensor, repeats: int) -> dict[str, Any]:
    """Seconds of the processor for a batch, and their ratio."""
    seconds: dict[str, list[float]] = {"teacher": [], "student": []}
    for _ in range(repeats):
        for who, predict, times in (("teacher", teacher, 1), ("student", student, 10)):
            predict(rows)  # neither finds its data in the cache that the other has used
            for _ in range(times):
                began = time.process_time()
                predict(rows)
                seconds[who].append(time.process_time() - began)
    median = {who: statistics.median(values) for who, values in seconds.items()}
    return {"seconds": median, "ratio": median["teacher"] / median["student"]}


def _thinned(posterior: sbmc.Posterior, k: int, bundle: DataBundle) -> dict[str, Any]:
    """The teacher with k particles, and its file in bfloat16, read again."""
    thinned = posterior.thin(k)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "thinned.sbmc"
        thinned.save(file, dtype="bfloat16")
        again = sbmc.load(file, posterior.model)
        size = file.stat().st_size
    return {
        "particles": thinned.positions.shape[1],
        "moved": thinned.settings["thinned"]["moved"],
        "scores": _scores(thinned.predict, bundle),
        "bfloat16_scores": _scores(again.predict, bundle),
        "file_bytes": size,
    }


def distillation_table(record: dict[str, Any]) -> str:
    """Means over seeds, of each data set a table: the teacher, the student, thinned teachers."""
    names = dict.fromkeys(row["dataset"] for row in record["rows"])
    tables = [[row for row in record["rows"] if row["dataset"] == name] for name in names]
    return "\n\n".join("\n".join(_lines(rows)) for rows in tables)


def _lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    groups = list(rows[0]["teacher_scores"]["auroc"])
    headings = [f"{rows[0]['dataset']}, {len(rows)} seeds", "accuracy", "NLL"]
    headings += [f"AUROC, {group}".replace("_", " ") for group in groups]
    headings += ["speed", "bytes"]
    ratios = [row["ratio"] for row in rows]
    networks, size = rows[0]["networks"], rows[0]["bytes"]
    changes = [f"{100 * _worst(rows, 'accuracy'):+.2f}", f"{_worst(rows, 'nll'):+.4f}"]
    changes += [f"{_worst(rows, 'auroc', group):+.3f}" for group in groups]
    lines = [
        line(headings),
        line(["---"] + ["---:"] * (len(headings) - 1)),
        _line(f"{networks} networks", rows, "teacher_scores", "1×", size),
        _line(
            "**distilled**",
            rows,
            "student_scores",
            f"{statistics.median(ratios):.0f}×",
            4 * rows[0]["weights"],
        ),
        line(["change, in the worst seed", *changes, f"{min(ratios):.0f}×", "–"]),
    ]
    for position in range(len(rows[0]["thinned"])):
        thinned = [row["thinned"][position] for row in rows]
        kept = thinned[0]["particles"]
        label = f"thinned to {kept}"
        lines.append(_line(label, thinned, "scores", "–", size // networks * kept))
        file = thinned[0]["file_bytes"]
        lines.append(_line(f"{label}, file in bfloat16", thinned, "bfloat16_scores", "–", file))
    return lines


def _line(label: str, rows: Sequence[dict[str, Any]], part: str, speed: str, size: int) -> str:
    scores = [row[part] for row in rows]
    cells = [f"{100 * _mean([each['accuracy'] for each in scores]):.2f} %"]
    cells.append(f"{_mean([each['nll'] for each in scores]):.4f}")
    groups = scores[0]["auroc"]
    cells += [f"{_mean([each['auroc'][group] for each in scores]):.3f}" for group in groups]
    return line([label, *cells, speed, f"{size:,}"])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _changes(rows: Sequence[dict[str, Any]], name: str, group: str | None = None) -> list[float]:
    """How a score changes from the teacher to the student, seed by seed."""
    changes = []
    for row in rows:
        student, teacher = row["student_scores"][name], row["teacher_scores"][name]
        changes.append(student - teacher if group is None else student[group] - teacher[group])
    return changes


def _worst(rows: Sequence[dict[str, Any]], name: str, group: str | None = None) -> float:
    """The change of the seed that loses most: the lowest one, and of NLL the highest."""
    changes = _changes(rows, name, group)
    return max(changes) if name == "nll" else min(changes)


def missed(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What the students of a data set fall short of, in means over its seeds."""
    failures = []
    for name in dict.fromkeys(row["dataset"] for row in rows):
        some = [row for row in rows if row["dataset"] == name]
        losses = {
            "accuracy": -_mean(_changes(some, "accuracy")),
            "NLL": _mean(_changes(some, "nll")),
        }
        for group in some[0]["teacher_scores"]["auroc"]:
            losses[f"AUROC of {group}"] = -_mean(_changes(some, "auroc", group))
        for score, loss in losses.items():
            allowed = ALLOWED[score.split()[0].lower()]
            if loss > allowed:
                failures.append(f"{name}: {score} is {loss:.4f} worse, {allowed:g} allowed")
        ratio = _mean([row["ratio"] for row in some])
        if ratio < REQUIRED_RATIO:
            failures.append(f"{name}: {ratio:.1f} times as fast, {REQUIRED_RATIO:g} required")
    return failures


def fill(text: str, records: Path) -> str:
    """Put the table of the record into the page's text; see `benchmarks.readme`."""
    return readme.fill(text, records, {"distillation": ("distillation", distillation_table)})


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the record lacks, and fill the page; 1 if a student misses its goal."""
    parser = shared.make_parser("distillation", __doc__, repeats=21)
    options = shared.parse(parser, arguments)
    rows = json.loads(options.out.read_text("utf-8"))["rows"] if options.out.exists() else []
    there = {(row["dataset"], row["seed"]) for row in rows}
    for name in DATASETS[:1] if options.quick else DATASETS:
        for seed in SEEDS[:1] if options.quick else SEEDS:
            if (name, seed) in there:
                continue
            print(f"{name}, seed {seed}", file=sys.stderr, flush=True)
            rows.append(measure(name, seed, quick=options.quick, repeats=options.repeats))
            shared.write_record(options, "distillation", {"rows": rows})
    print(distillation_table({"rows": rows}))
    if options.quick:
        return 0
    if options.out == shared.RECORDS / "distillation.json":
        PAGE.write_text(fill(PAGE.read_text("utf-8"), shared.RECORDS), "utf-8")
    return shared.tell_failures(missed(rows))


if __name__ == "__main__":
    sys.exit(main())
