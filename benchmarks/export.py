"""`python -m benchmarks.export --threads 1`: examples per second of exported graphs.

The ensemble of 80 networks and the network distilled from it are asked by `predict`, in ONNX
Runtime and as the graph of torch.export, one row at a time and 1,000 at a time. There are two
workloads: the paper's CNN on digits, whose graph has a part for each network, and regression on a
table with learned noise, whose operations are for all networks and whose intervals are bisected. As
speed does not depend on the values of weights, sampling and distilling are short. All answers of a
posterior are asked for, of numbers the interval too. Times are of the processor, since other work
on the machine does not count in them; the contestants take turns, and medians are reported. It
ends with exit code 1 if a graph differs from `predict` by more than 1e-5.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import sbmc
from benchmarks import options as shared
from benchmarks import readme
from benchmarks.tables import line
from sbmc.storage.optional import load_onnx
from sbmc_studies.data import load_dataset
from sbmc_studies.experiments.networks import paper_cnn

PAGE = Path(__file__).parents[1] / "docs" / "export.md"
BATCHES = (1, 1_000)
ALLOWED = 1e-5
LEVEL = 0.9
# Calls of one timing: a single one with a row takes less than the clock can tell.
CALLS = {1: 20, 1_000: 1}

Answer = Callable[[Tensor], Any]


def digits(quick: bool) -> tuple[sbmc.Posterior, Tensor]:
    """The paper's CNN on digits, and rows to ask about."""
    bundle = load_dataset("digits")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = paper_cnn(tuple(bundle.train[0].shape[1:]), bundle.classes)
    return _sampled(network, bundle.train, quick), bundle.test[0]


def table(quick: bool) -> tuple[sbmc.Posterior, Tensor]:
    """A network of two hidden layers on a made-up table, with noise that is learned."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        x = torch.randn(500, 13)
        targets = x[:, :1] * x[:, 1:2] + 0.1 * torch.randn(500, 1)
        layers = [nn.Linear(13, 50), nn.Tanh(), nn.Linear(50, 50), nn.Tanh(), nn.Linear(50, 1)]
    return _sampled(nn.Sequential(*layers), (x, targets), quick), x


WORKLOADS = {"digits, CNN": digits, "table, two hidden layers of 50": table}


def _sampled(network: nn.Module, data: Any, quick: bool) -> sbmc.Posterior:
    islands, particles = (2, 2) if quick else (8, 10)
    sampler = sbmc.HMC(epochs=4 if quick else 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sbmc.HealthWarning)
        return sbmc.fit(
            network,
            data,
            s=0.1,
            sampler=sampler,
            islands=islands,
            particles=particles,
            progress=False,
        )


def measure(name: str, *, quick: bool, repeats: int) -> dict[str, Any]:
    """Write the files of one workload, and time all that answer.

    Args:
        name: of the workload.
        quick: tiny sizes, for tests.
        repeats: of each timing.

    Returns:
        A row for each contestant.
    """
    posterior, rows = WORKLOADS[name](quick)
    distilled = posterior.distil(steps=20 if quick else 500, perturbations=50 if quick else None)
    networks = len(posterior.weights.flatten())
    contestants: dict[str, tuple[dict[str, Any], Answer]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for who, predictor in ((f"{networks} networks", posterior), ("distilled", distilled)):
            contestants[f"{who}, `predict`"] = {}, _predicting(predictor)
            for form, opened in (("onnx", _in_onnx_runtime), ("pt2", _in_torch)):
                began = time.process_time()
                exported = predictor.export(Path(folder) / f"{len(contestants)}.{form}")
                details = {
                    "writing_seconds": time.process_time() - began,
                    "bytes": exported.bytes,
                    "difference": exported.difference,
                    "unrolled": exported.unrolled,
                }
                label = {"onnx": "ONNX Runtime", "pt2": "torch.export"}[form]
                contestants[f"{who}, {label}"] = details, opened(exported.path)
        speeds = _speeds({who: answer for who, (_, answer) in contestants.items()}, rows, repeats)
    measured = [
        {"who": who, **details, "rows_per_second": speeds[who]}
        for who, (details, _) in contestants.items()
    ]
    return {"workload": name, "networks": networks, "contestants": measured}


def _predicting(predictor: Any) -> Answer:
    def answer(rows: Tensor) -> Any:
        prediction = predictor.predict(rows)
        return prediction if hasattr(prediction, "probs") else prediction.interval(LEVEL)

    return answer


def _in_onnx_runtime(path: Path) -> Answer:
    runtime = load_onnx().runtime
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda rows: session.run(None, {"inputs": rows.numpy()})


def _in_torch(path: Path) -> Answer:
    module = torch.export.load(path).module()

    def answer(rows: Tensor) -> Any:
        with torch.no_grad():
            return module(rows)

    return answer


def _speeds(answers: dict[str, Answer], rows: Tensor, repeats: int) -> dict[str, dict[str, float]]:
    """Rows per second of the processor, by contestant and size of the batch."""
    found: dict[str, dict[str, float]] = {who: {} for who in answers}
    for size in BATCHES:
        batch = rows[torch.arange(size) % len(rows)].contiguous()
        seconds: dict[str, list[float]] = {who: [] for who in answers}
        for _ in range(repeats):
            for who, answer in answers.items():
                answer(batch)  # nobody finds data in the cache that another has used
                began = time.process_time()
                for _ in range(CALLS[size]):
                    answer(batch)
                seconds[who].append((time.process_time() - began) / CALLS[size])
        for who, values in seconds.items():
            found[who][str(size)] = size / statistics.median(values)
    return found


def export_table(record: dict[str, Any]) -> str:
    """A table of each workload."""
    return "\n\n".join("\n".join(_lines(each)) for each in record["rows"])


def _lines(measured: dict[str, Any]) -> list[str]:
    headings = [measured["workload"], *(f"rows/s, {size:,} at a time" for size in BATCHES)]
    headings += ["beside `predict`", "difference", "bytes", "seconds to write"]
    lines = [line(headings), line(["---"] + ["---:"] * (len(headings) - 1))]
    for each in measured["contestants"]:
        speeds = each["rows_per_second"]
        if "bytes" not in each:  # `predict`, with which the next ones are compared
            base = speeds
        ratios = " and ".join(f"{speeds[str(s)] / base[str(s)]:.1f}×" for s in BATCHES)
        cells = [each["who"], *(f"{speeds[str(size)]:,.0f}" for size in BATCHES), ratios]
        if "bytes" in each:
            cells += [f"{each['difference']:.0e}", f"{each['bytes']:,}"]
            cells.append(f"{each['writing_seconds']:.0f}")
        else:
            cells += ["–"] * 3
        lines.append(line(cells))
    return lines


def missed(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Graphs that differ from `predict` by more than is allowed."""
    return [
        f"{row['workload']}, {each['who']}: differs by {each['difference']:.1e}"
        for row in rows
        for each in row["contestants"]
        if each.get("difference", 0.0) > ALLOWED
    ]


def fill(text: str, records: Path) -> str:
    """Put the table of the record into the page's text; see `benchmarks.readme`."""
    return readme.fill(text, records, {"export": ("export", export_table)})


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and fill the page; 1 if a graph differs from `predict`."""
    parser = shared.make_parser("export", __doc__, repeats=15)
    options = shared.parse(parser, arguments)
    rows = []
    for name in WORKLOADS:
        print(name, file=sys.stderr, flush=True)
        rows.append(measure(name, quick=options.quick, repeats=options.repeats))
    shared.write_record(options, "export", {"rows": rows})
    print(export_table({"rows": rows}))
    if not options.quick and options.out == shared.RECORDS / "export.json":
        PAGE.write_text(fill(PAGE.read_text("utf-8"), shared.RECORDS), "utf-8")
    return shared.tell_failures(missed(rows))


if __name__ == "__main__":
    sys.exit(main())
