"""`python -m benchmarks.serving`: a load test of `sbmc serve` on the loopback address.

The server answers for the embedded digits, 80 networks, in a process of its own. Clients in this
process send requests of one digit each over 32 connections at once, and every answer is compared
with `posterior.predict`. The same load without joining requests (`--batch-rows 1`) and one client
alone are for comparison. Server and clients share the machine, so times are longer than those of
the server alone. It ends with exit code 1 if any request was not answered, or not rightly.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks import options as shared
from benchmarks import readme
from benchmarks.serving_client import (
    Answer,
    ServerProcess,
    content_of,
    counted,
    percentile,
    send_all,
)
from benchmarks.tables import line, machine_words
from sbmc.datasets import digits
from sbmc_serve.digits import digits_posteriors

PAGE = Path(__file__).parents[1] / "docs" / "serving.md"
REQUESTS, AT_ONCE = 10_000, 32
ALLOWED = 1e-6
# Title, options of the server, connections, share of the requests.
SCENARIOS: tuple[tuple[str, list[str], int, float], ...] = (
    ("requests are joined", [], AT_ONCE, 1.0),
    ("requests are not joined", ["--batch-rows", "1"], AT_ONCE, 1.0),
    ("one client alone", [], 1, 0.1),
)


def measure(requests: int) -> list[dict[str, Any]]:
    """Run all scenarios.

    Args:
        requests: of the first one.

    Returns:
        A row for each.
    """
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        with patch.dict(os.environ, XDG_CACHE_HOME=folder):
            posterior = digits_posteriors(progress=False)["s=0.1"]
        inputs = digits.load().test[0]
        expected = posterior.predict(inputs).probs.tolist()
        bodies = [json.dumps({"inputs": [row]}).encode() for row in inputs.tolist()]
        rows = []
        for title, arguments, at_once, share in SCENARIOS:
            count = max(1, round(requests * share))
            sent = [bodies[number % len(bodies)] for number in range(count)]
            with ServerProcess(["--digits", *arguments], cache) as server:
                send_all(server.port, bodies[:50], at_once)  # warm
                before = server.get("/metrics")
                answers, seconds = send_all(server.port, sent, at_once)
                after = server.get("/metrics")
            wrong = [
                number
                for number, each in enumerate(answers)
                if not is_right(each, number, expected)
            ]
            batches = _grown(before, after, "sbmc_batch_requests_count")
            rows.append(
                {
                    "scenario": title,
                    "at_once": at_once,
                    "requests": count,
                    "wrong": len(wrong),
                    "seconds": seconds,
                    "requests_per_second": count / seconds,
                    "requests_per_batch": _grown(before, after, "sbmc_batch_requests_sum")
                    / batches,
                    **{
                        name: 1e3 * percentile([each.seconds for each in answers], share)
                        for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99), ("max_ms", 1.0))
                    },
                }
            )
            print(rows[-1], file=sys.stderr, flush=True)
        return rows


def _grown(before: str, after: str, name: str) -> float:
    return counted(after, name) - counted(before, name)


def is_right(answer: Answer, number: int, expected: Sequence[Sequence[float]]) -> bool:
    """Whether an answer is that of `posterior.predict` for the row of this number."""
    if answer.status != 200:
        return False
    (prediction,) = content_of(answer)["predictions"]
    pairs = zip(prediction["probabilities"], expected[number % len(expected)], strict=True)
    return all(abs(one - other) <= ALLOWED for one, other in pairs)


def serving_table(record: Mapping[str, Any]) -> str:
    """The record as a table."""
    lines = [
        f"{machine_words(dict(record))}; server and clients share the machine.",
        "",
        "| 80 networks on 8 × 8 digits, one row a request | requests | at once | errors "
        "| p50, ms | p99, ms | largest, ms | requests/s | requests a prediction |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in record["rows"]:
        cells = [row["scenario"], f"{row['requests']:,}", str(row["at_once"]), str(row["wrong"])]
        cells += [f"{row[name]:.1f}" for name in ("p50_ms", "p99_ms", "max_ms")]
        cells += [f"{row['requests_per_second']:,.0f}", f"{row['requests_per_batch']:.1f}"]
        lines.append(line(cells))
    return "\n".join(lines)


def missed(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Scenarios in which requests were not answered, or not rightly."""
    return [
        f"{row['scenario']}: {row['wrong']:,} of {row['requests']:,} requests"
        for row in rows
        if row["wrong"]
    ]


def fill(text: str, records: Path) -> str:
    """Put the table of the record into the page's text; see `benchmarks.readme`."""
    return readme.fill(text, records, {"serving": ("serving", serving_table)})


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and fill the page; 1 if a request was not answered rightly."""
    parser = shared.make_parser("serving", __doc__)
    options = shared.parse(parser, arguments)
    rows = measure(100 if options.quick else REQUESTS)
    record = shared.write_record(options, "serving", {"rows": rows})
    print(serving_table(record))
    if not options.quick and options.out == shared.RECORDS / "serving.json":
        PAGE.write_text(fill(PAGE.read_text("utf-8"), shared.RECORDS), "utf-8")
    return shared.tell_failures(missed(rows))


if __name__ == "__main__":
    sys.exit(main())
