"""`python -m benchmarks.kernels_wheel --wheel WHEEL`: shipped kernels against native code.

Every instruction set of a wheel that this processor runs, beside the same C code compiled here, in
one process: value and gradient over all examples, and over mini-batches. Compiled here is, for this
very processor (`-march=native`), what runs without a wheel; and for each set (`-march=x86-64-v3`),
what would run without a wheel on a processor that has no better one. All take turns within each
repetition, and a ratio is the median of the ratios within a repetition. The set that is chosen here
has to reach 0.8 times the speed of native code, and every set 0.8 times that of its own kind.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks import options as shared
from benchmarks.workloads import build_way, draw_positions, get_workload, make_examples
from sbmc.model.kernels.native import build, chain, shipped
from sbmc.model.kernels.native.libraries import forget_loaded
from sbmc.target.target import Target

WORKLOADS = ("mnist7", "strided", "head", "cifar", "mlp", "regression")
BATCHED = ("mnist7", "head", "mlp", "regression")
PARTICLES, BATCH = 10, 50
NATIVE, NEEDED = "native", 0.8
LEAST_SECONDS = 0.02  # of one timing: short calls are repeated


@contextmanager
def code(choice: str, march: str = "") -> Iterator[None]:
    """Kernels that are built inside have this code.

    Args:
        choice: `compile`, or the name of a shipped instruction set.
        march: with `compile`, the set to compile for; this processor's if empty.
    """
    before, tunings = os.environ.get(shipped.VARIABLE), build.TUNINGS
    os.environ[shipped.VARIABLE] = choice
    if march:
        build.TUNINGS = ((f"-march={march}",),)
    forget_loaded()
    try:
        yield
    finally:
        forget_loaded()
        build.TUNINGS = tunings
        del os.environ[shipped.VARIABLE]
        if before is not None:
            os.environ[shipped.VARIABLE] = before


@contextmanager
def unpacked(wheel: Path) -> Iterator[None]:
    """Use the libraries of a wheel, as if it were installed."""
    inside = f"sbmc/model/kernels/native/{shipped.FOLDER.name}/"
    before = shipped.FOLDER
    with TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(inside):
                (Path(folder) / Path(name).name).write_bytes(archive.read(name))
        shipped.FOLDER = Path(folder)
        try:
            yield
        finally:
            shipped.FOLDER = before


def full_pass(target: Target, positions: torch.Tensor) -> Callable[[], object]:
    """One value and gradient of all particles over all examples."""
    return lambda: target(positions)


def batch_passes(target: Target, positions: torch.Tensor) -> Callable[[], object]:
    """An epoch in mini-batches, each particle with its own."""
    engine = target.engine
    kernel = engine.batch_kernel()
    assert kernel is not None
    theta = target.prior.to_parameters(positions).contiguous()
    rng = torch.Generator().manual_seed(2)
    examples = len(engine.examples)
    order = torch.stack([torch.randperm(examples, generator=rng) for _ in theta])
    batches = [part.contiguous() for part in order.split(BATCH, 1)]
    factor, out = torch.ones(target.dim), torch.empty_like(theta)

    def run() -> None:
        for batch in batches:
            kernel(theta, batch, factor, out)

    return run


def measure(workload: str, kind: str, sets: Sequence[str], repeats: int, quick: bool) -> dict:
    """Time one problem with all codes, in turn.

    Returns:
        A row of the record: milliseconds per epoch and particle of native code; the speed of each
        set over that of native code, and over that of the same set compiled here.
    """
    chosen = get_workload(workload, quick)
    data = make_examples(chosen, chosen.examples)
    make = full_pass if kind == "all data" else batch_passes
    calls = {}
    codes = {NATIVE: ("compile", "")} | {name: (name, "") for name in sets}
    codes |= {f"{name} compiled here": ("compile", name) for name in sets}
    for name, choice in codes.items():
        with code(*choice):
            target = build_way(chosen, data, "fused")
            positions = draw_positions(target, PARTICLES)
            calls[name] = make(target, positions)
            calls[name]()  # loads and prepares
    began = time.perf_counter()
    calls[NATIVE]()
    times = max(1, round(LEAST_SECONDS / (time.perf_counter() - began)))
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            began = time.perf_counter()
            for _ in range(times):
                call()
            seconds[name].append((time.perf_counter() - began) / times)

    def speed(name: str, other: str) -> float:
        pairs = zip(seconds[name], seconds[other], strict=True)
        return statistics.median(theirs / ours for ours, theirs in pairs)

    return {
        "workload": workload,
        "title": chosen.title,
        "kind": kind,
        "milliseconds": 1e3 * statistics.median(seconds[NATIVE]) / PARTICLES,
        "speed": {name: speed(name, NATIVE) for name in sets},
        "like_for_like": {name: speed(name, f"{name} compiled here") for name in sets},
    }


def find_failures(record: dict[str, Any]) -> list[str]:
    """Rows in which a set is slower than it may be."""
    failures = []
    for row in record["rows"]:
        speeds = {f"{record['chosen']}, native code": row["speed"][record["chosen"]]}
        speeds |= {f"{name}, compiled here": ratio for name, ratio in row["like_for_like"].items()}
        failures += [
            f"{row['title']}, {row['kind']}: {ratio:.2f} times the speed ({what}), {NEEDED} needed"
            for what, ratio in speeds.items()
            if ratio < NEEDED
        ]
    return failures


def kernels_wheel_table(record: dict[str, Any]) -> str:
    """The table of a record, in Markdown."""
    sets = record["sets"]
    kinds = [f"{name} against native" for name in sets] + [f"its own kind: {sets[0]}", *sets[1:]]
    lines = [
        f"Medians of {record['repeats']} repetitions; {record['threads']} thread(s), "
        f"{record['hardware']['processor']}; load average {record['load']:.1f} before the run. "
        f"Chosen here: {record['chosen']}. Native code: {record['native']}.",
        "",
        f"| problem | gradient over | native, ms per epoch and particle | {' | '.join(kinds)} |",
        f"|---|---|---:|{'---:|' * len(kinds)}",
    ]
    for row in record["rows"]:
        ratios = [row[against][name] for against in ("speed", "like_for_like") for name in sets]
        speeds = " | ".join(f"{ratio:.2f}×" for ratio in ratios)
        lines.append(f"| {row['title']} | {row['kind']} | {row['milliseconds']:.3f} | {speeds} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the record, print the table; exit code 1 if a set is too slow."""
    parser = shared.make_parser("kernels_wheel", __doc__, repeats=15)
    parser.add_argument("--wheel", type=Path, required=True, help="one with compiled kernels")
    options = shared.parse(parser, arguments)
    with unpacked(options.wheel):
        sets = shipped.shipped_sets()
        if not sets:
            parser.error(f"`wheel` must have compiled kernels of these sources: {options.wheel}")
        with code("compile"):
            chain.library()
            native = build.code_of("chain")
        rows = []
        for kind, names in (("all data", WORKLOADS), (f"batches of {BATCH}", BATCHED)):
            for workload in names[:2] if options.quick else names:
                print(f"{workload}, {kind}", file=sys.stderr, flush=True)
                rows.append(measure(workload, kind, sets, options.repeats, options.quick))
    measured = {
        "repeats": options.repeats,
        "wheel": options.wheel.name,
        "sets": sets,
        "chosen": sets[-1],
        "native": native,
        "rows": rows,
    }
    record = shared.write_record(options, "kernels_wheel", measured)
    print(kernels_wheel_table(record))
    return 0 if options.quick else shared.tell_failures(find_failures(record))


if __name__ == "__main__":
    sys.exit(main())
