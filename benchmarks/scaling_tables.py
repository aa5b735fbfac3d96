"""Markdown tables of the records about islands on many workers, and from nothing else."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.tables import line, machine_words


def scaling_table(record: dict[str, Any]) -> str:
    """One worker, two workers, and the others."""
    lines = [
        f"Medians of {record['repeats']} runs of each of the first two, which took turns; "
        f"the others once; {machine_words(record)}.",
        "",
        "| way | threads of a worker | seconds | faster than one worker "
        "| starting the workers, seconds | faster, with the starting |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    one = record["rows"][0]
    for row in record["rows"]:
        cells = [row["way"], str(row["threads"]), f"{row['seconds']:.1f}"]
        cells += [f"{one['seconds'] / row['seconds']:.2f}×", f"{row['start_up_seconds']:.1f}"]
        cells += [f"{one['with_start_up'] / row['with_start_up']:.2f}×"]
        lines.append(line(cells))
    return "\n".join(lines)


def checkpoint_table(record: dict[str, Any]) -> str:
    """What writing takes at each interval."""
    lines = [
        f"{record['islands']} islands one by one in one process, medians of {record['repeats']} "
        f"runs that took turns; {machine_words(record)}.",
        "",
        "| states are written | seconds of the run | states written | milliseconds a state "
        "| writing, part of the run | wall time beside no checkpoint |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    words = {"none": "never: no checkpoint", "default": "every 60 s, the default"}
    for row in record["rows"]:
        cells = [words.get(row["interval"], row["interval"])]
        if row["interval"] not in words and row["every"]:
            cells = [f"every {row['every']:.2f} s, {row['interval']}"]
        cells += [f"{row['seconds']:.1f}"]
        if row["every"] is None:
            cells += ["–", "–", "–", "1"]
        else:
            cells += [f"{row['states']:.0f}", f"{1e3 * row['seconds_per_state']:.1f}"]
            cells += [f"{row['writing']:.2%}", f"{row['over_none']:.3f}"]
        lines.append(line(cells))
    return "\n".join(lines)


def many_table(record: dict[str, Any]) -> str:
    """A thousand islands by each executor."""
    lines = [
        f"{record['islands']:,} islands, medians of {record['repeats']} runs that took turns; "
        f"{machine_words(record)}.",
        "",
        "| way | workers | islands under way | seconds | starting, seconds "
        "| overhead per island, ms | of which the driver computes, ms |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in record["rows"]:
        here = row["driver_per_island"] is None
        cells = [row["way"], str(row["workers"]), f"{row['under_way']:,}", f"{row['seconds']:.1f}"]
        cells += [f"{row['start_up_seconds']:.1f}"]
        cells += ["–"] if here else [f"{1e3 * row['overhead_per_island']:.1f}"]
        cells += ["–"] if here else [f"{1e3 * row['driver_per_island']:.2f}"]
        lines.append(line(cells))
    lines += [
        "",
        "| the driver without any executor: islands under way | µs an island | µs for its news |",
        "|---:|---:|---:|",
    ]
    for row in record["driver"]:
        spent = [f"{1e6 * row[f'seconds_per_{name}']:.0f}" for name in ("island", "news")]
        lines.append(line([f"{row['under_way']:,}", *spent]))
    return "\n".join(lines)


def simulation_table(record: dict[str, Any]) -> str:
    """The time that all islands take, and the efficiency, by islands and workers."""
    workers = sorted({row["workers"] for row in record["grid"]})
    shown = [count for count in workers if math.log10(count).is_integer()]
    lines = [
        "| islands | "
        + " | ".join(f"{count:,} worker{'s' * (count > 1)}" for count in shown)
        + " |",
        "|---:" * (len(shown) + 1) + "|",
    ]
    for islands in sorted({row["islands"] for row in record["grid"]}):
        rows = {row["workers"]: row for row in record["grid"] if row["islands"] == islands}
        cells = [
            f"{format_seconds(rows[count]['makespan'])} ({rows[count]['efficiency']:.0%})"
            for count in shown
        ]
        lines.append(line([f"{islands:,}", *cells]))
    return "\n".join(lines)


def failures_table(record: dict[str, Any]) -> str:
    """What deaths of workers undo, with and without checkpoints."""
    lines = [
        "| a worker dies once in | deaths | work lost: with checkpoints | without "
        "| islands given up after two retries: with | without | all ended after: with | without |",
        "|---:" * 8 + "|",
    ]
    found = {(row["days"], row["checkpoint"], row["retries"]): row for row in record["failures"]}
    interval = next(row["checkpoint"] for row in record["failures"] if row["checkpoint"])
    for days in sorted({row["days"] for row in record["failures"]}):
        ends = [found.get((days, every, None)) for every in (interval, None)]
        tries = [found.get((days, every, 2)) for every in (interval, None)]
        cells = [format_seconds(days * 86_400), f"{ends[0]['failures']:,}" if ends[0] else "–"]
        cells += [f"{row['lost'] / row['useful']:.2%}" if row else "–" for row in ends]
        cells += [f"{row['given_up']:,}" if row else "–" for row in tries]
        cells += [format_seconds(row["makespan"]) if row else "–" for row in ends]
        lines.append(line(cells))
    return "\n".join(lines)


def format_seconds(seconds: float) -> str:
    """A length of time, shortly.

    Example:
        >>> format_seconds(17.6), format_seconds(60.0), format_seconds(5400.0),
        format_seconds(200_000.0) ('18 s', '1 min', '1.5 h', '2.31 days')
    """
    for unit, name in ((86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            value = f"{seconds / unit:.3g}"
            return f"{value} {'day' if (value, name) == ('1', 'days') else name}"
    return f"{seconds:.0f} s"


def constants_table(record: dict[str, Any]) -> str:
    """What the simulation took from measurements, and what it assumes."""
    found = record["constants"]
    epoch, spread = 1e3 * found["epoch_seconds"], found["spread"]
    crowd, news, news_crowd = (1e6 * found[name] for name in ("crowd", "news", "news_crowd"))
    rows = [
        ("an epoch of an island (10 particles, one thread)", f"{epoch:.0f} ms", "scaling"),
        ("an island of 160 epochs", format_seconds(found["island_seconds"]), "scaling"),
        ("spread of islands (standard deviation of the log)", f"{spread:.3f}", "scaling"),
        ("start of a worker", f"{found['start']:.1f} s", "scaling"),
        ("the work that a worker is sent", f"{found['payload_bytes'] / 1e6:.1f} MB", "scaling"),
        ("what an island sends back", f"{found['result_bytes'] / 1e3:.0f} kB", "scaling"),
        ("the driver for an island (Ray)", f"{1e3 * found['submit']:.2f} ms", "many_islands"),
        ("… and more for each island under way", f"{crowd:.3f} µs", "many_islands"),
        ("the driver for news of an island, twice a second", f"{news:.1f} µs", "many_islands"),
        ("… and more for each island under way", f"{news_crowd:.3f} µs", "many_islands"),
        ("writing a state", f"{1e3 * found['write']:.1f} ms", "checkpoint_overhead"),
        ("network of the driver", f"{8e-9 * found['bandwidth']:.0f} Gbit/s", None),
        ("a worker dies once in", format_seconds(record["days"] * 86_400), None),
    ]  # fmt: skip
    lines = ["| constant | value | from |", "|---|---:|---|"]
    lines += [
        line([name, value, f"`python -m benchmarks.{source}`" if source else "assumed"])
        for name, value, source in rows
    ]
    return "\n".join(lines)


def driver_table(record: dict[str, Any]) -> str:
    """The number of workers that keep the driver busy."""
    lines = ["| an island takes | the driver is the limit from so many workers |", "|---:|---:|"]
    for row in record["driver_limit"]:
        lines.append(line([format_seconds(row["island_seconds"]), f"{row['workers']:,.0f}"]))
    return "\n".join(lines)
