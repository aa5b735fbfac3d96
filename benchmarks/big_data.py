"""Memory of a run on data that are larger than memory: a mapped file, sampled and predicted.

`python -m benchmarks.big_data` makes a sparse file of 20 GB, of which every thousandth row is
written, samples a posterior by mini-batches, one pass over all rows, and predicts for all rows. A
thread reads the anonymous memory of all processes meanwhile: what they hold that is in no file.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import sbmc
from benchmarks import options as shared
from benchmarks import readme
from benchmarks.tables import line

PAGE = Path(__file__).parents[1] / "docs" / "big_data.md"
FEATURES, EVERY = 4_096, 1_000
# What the process tree may hold, in bytes.
ALLOWED = 2 * 2**30


def make_file(path: Path, size: int) -> np.memmap:
    """A file of about so many bytes, sparse but for every thousandth row; mapped for reading."""
    rows = size // (4 * FEATURES)
    array = np.memmap(path, dtype=np.float32, mode="w+", shape=(rows, FEATURES))
    rng = np.random.default_rng(0)
    for row in range(0, rows, EVERY):
        array[row] = rng.standard_normal(FEATURES, dtype=np.float32)
    array.flush()
    return np.memmap(path, dtype=np.float32, mode="r", shape=(rows, FEATURES))


def anonymous_bytes() -> int:
    """Memory of this process and of all that it has started, without pages of files."""
    parents: dict[int, tuple[int, int]] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(
                each.split(":", 1) for each in status.read_text("utf-8").splitlines() if ":" in each
            )
        except OSError:  # it has ended
            continue
        held = int(fields.get("RssAnon", "0").split()[0]) * 1024
        parents[int(fields["Pid"])] = (int(fields["PPid"]), held)
    own = {os.getpid()}
    while True:
        more = {pid for pid, (parent, _) in parents.items() if parent in own} - own
        if not more:
            return sum(parents[pid][1] for pid in own if pid in parents)
        own |= more


@contextmanager
def watched() -> Iterator[list[int]]:
    """The largest anonymous memory while the block runs, as the first item of a list."""
    peak, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            peak[0] = max(peak[0], anonymous_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()


def measure(size: int) -> dict[str, Any]:
    """Sample by mini-batches and predict, and say what it took."""
    with tempfile.TemporaryDirectory() as folder:
        inputs = make_file(Path(folder) / "inputs.bin", size)
        written = np.arange(0, len(inputs), EVERY)
        targets = np.arange(len(inputs)) % 2
        targets[written] = inputs[written, 0] > 0
        torch.manual_seed(0)
        network = nn.Linear(FEATURES, 2)
        before = anonymous_bytes()
        sampler = sbmc.SGHMC(epochs=1, step_size=1e-3, batch_size=5_000, warmup=0.0)
        with watched() as sampling:
            began = time.perf_counter()
            posterior = sbmc.fit(
                network, (inputs, targets), s=0.1, sampler=sampler, particles=2, progress=False
            )
            sampled = time.perf_counter() - began
        with watched() as predicting:
            began = time.perf_counter()
            predicted = len(posterior.predict(inputs).mean)
            predicted_in = time.perf_counter() - began
        return {
            "bytes": inputs.nbytes,
            "rows": len(inputs),
            "rows_written": len(written),
            "rows_predicted": predicted,
            "mini_batches": posterior.islands[0].steps,
            "anonymous_before": before,
            "anonymous_sampling": sampling[0],
            "anonymous_predicting": predicting[0],
            "seconds_sampling": sampled,
            "seconds_predicting": predicted_in,
        }


def table(record: dict[str, Any]) -> str:
    """The figures of a record."""
    rows = [["", "before", "sampling", "predicting"], ["---", "---:", "---:", "---:"]]
    held = [record[f"anonymous_{part}"] / 2**20 for part in ("before", "sampling", "predicting")]
    rows.append(["anonymous memory at its peak, MiB", *(f"{each:,.0f}" for each in held)])
    return "\n".join(map(line, rows))


def missed(record: dict[str, Any]) -> list[str]:
    """What is above the memory that is allowed, or was not predicted."""
    failures = [
        f"{part}: {record[part]:,} bytes of anonymous memory, more than {ALLOWED:,}"
        for part in ("anonymous_sampling", "anonymous_predicting")
        if not 0 < record[part] < ALLOWED
    ]
    if record["rows_predicted"] != record["rows"]:
        failures.append(f"{record['rows_predicted']} of {record['rows']} rows were predicted")
    return failures


def fill(text: str, records: Path) -> str:
    """Put the table of the record into the page's text; see `benchmarks.readme`."""
    return readme.fill(text, records, {"big_data": ("big_data", table)})


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and fill the page; 1 if more memory was held than is allowed."""
    parser = shared.make_parser("big_data", __doc__)
    parser.add_argument("--bytes", type=float, default=20e9, help="size of the file; 20e9")
    options = shared.parse(parser, arguments)
    warnings.simplefilter("ignore", sbmc.HealthWarning)  # one pass is a measurement, not a fit
    record = measure(int(1e9 if options.quick else options.bytes))
    shared.write_record(options, "big_data", record)
    print(table(record))
    if not options.quick and options.out == shared.RECORDS / "big_data.json":
        PAGE.write_text(fill(PAGE.read_text("utf-8"), shared.RECORDS), "utf-8")
    return shared.tell_failures(missed(record))


if __name__ == "__main__":
    sys.exit(main())
