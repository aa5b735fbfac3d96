"""`python -m benchmarks.kernels_wheel --wheel dist/sbmc-*.whl`: shipped kernels against native code.

Every instruction set of a wheel that this processor runs, beside the same C code compiled here for
this very processor (`-march=native`), in one process: value and gradient over all examples, and
over mini-batches. They take turns within each repetition, and a ratio is the median of the ratios
within a repetition. The set that would be chosen here has to reach 0.8 times the speed of native
code, and so has every other set from x86-64-v3 on; the set for the oldest processors is for those
that have nothing better, where native code would be the same.
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
from sbmc.model.kernels.native import (
    adam,
    build,
    chain,
    chain_batches,
    head,
    head_batches,
    planes,
    sgd,
    shipped,
    steps,
)
from sbmc.target.target import Target

WORKLOADS = ("mnist7", "strided", "head", "cifar", "mlp", "regression")
BATCHED = ("mnist7", "head", "mlp", "regression")
PARTICLES, BATCH = 10, 50
NATIVE, NEEDED = "native", 0.8
LEAST_SECONDS = 0.02  # of one timing: short calls are repeated
TO_BEAT = "x86-64"  # the set that need not reach the goal
LOADERS = (adam, chain, chain_batches, head, head_batches, sgd, steps)


@contextmanager
def code(choice: str) -> Iterator[None]:
    """Kernels that are built inside have this code: `compile`, or an instruction set's name."""
    before = os.environ.get(shipped.VARIABLE)
    os.environ[shipped.VARIABLE] = choice
    _forget()
    try:
        yield
    finally:
        _forget()
        del os.environ[shipped.VARIABLE]
        if before is not None:
            os.environ[shipped.VARIABLE] = before


def _forget() -> None:
    for module in LOADERS:
        module._load.cache_clear()
    planes._found = planes._Found()


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
        A row of the record: milliseconds per epoch and particle of native code, and the speed of
        each set over that of native code.
    """
    chosen = get_workload(workload, quick)
    data = make_examples(chosen, chosen.examples)
    make = full_pass if kind == "all data" else batch_passes
    calls = {}
    for name in (NATIVE, *sets):
        with code("compile" if name == NATIVE else name):
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
    native = seconds[NATIVE]
    return {
        "workload": workload,
        "title": chosen.title,
        "kind": kind,
        "milliseconds": 1e3 * statistics.median(native) / PARTICLES,
        "speed": {
            name: statistics.median(n / s for n, s in zip(native, seconds[name], strict=True))
            for name in sets
        },
    }


def find_failures(record: dict[str, Any]) -> list[str]:
    """Rows in which a set that has to be as fast as native code is not."""
    return [
        f"{row['title']}, {row['kind']}: {name} has {speed:.2f} times the speed of native code, "
        f"{NEEDED} needed"
        for row in record["rows"]
        for name, speed in row["speed"].items()
        if speed < NEEDED and (name != TO_BEAT or name == record["chosen"])
    ]


def kernels_wheel_table(record: dict[str, Any]) -> str:
    """The table of a record, in Markdown."""
    sets = record["sets"]
    lines = [
        f"Medians of {record['repeats']} repetitions; {record['threads']} thread(s), "
        f"{record['hardware']['processor']}; load average {record['load']:.1f} before the run. "
        f"Chosen here: {record['chosen']}. Native code: {record['native']}.",
        "",
        f"| problem | gradient over | native, ms per epoch and particle | {' | '.join(sets)} |",
        f"|---|---|---:|{'---:|' * len(sets)}",
    ]
    for row in record["rows"]:
        speeds = " | ".join(f"{row['speed'][name]:.2f}×" for name in sets)
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
