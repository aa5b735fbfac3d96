"""Markdown tables from the records of the benchmarks, and from nothing else."""

from __future__ import annotations

from typing import Any

from benchmarks.workloads import WAYS

MEBIBYTE = 2**20
OTHERS = tuple(way for way in WAYS if way != "fused")


def engine_table(record: dict[str, Any]) -> str:
    """The engine's record as two tables: speed and memory of the ways, and memory by examples."""
    lines = [
        f"Medians of {record['repeats']} repetitions; {machine_words(record)}.",
        "",
        f"| problem | particles | milliseconds per epoch and particle: {' | '.join(WAYS)} "
        f"| fused against {' | against '.join(OTHERS)} | peak memory, MiB: {' | '.join(WAYS)} |",
        "|---" + "|---:" * (1 + 2 * len(WAYS) + len(OTHERS)) + "|",
    ]
    for row in record["speed"]:
        seconds, peaks = row["seconds_per_epoch_and_particle"], row["peak_bytes"]
        cells = [row["title"], str(row["particles"])]
        cells += [f"{1e3 * seconds[way]:.2f}" for way in WAYS]
        cells += [f"{row['fused_over'][way]:.1f}×" for way in OTHERS]
        cells += [mebibytes(peaks and peaks[way]) for way in WAYS]
        lines.append(line(cells))
    lines += [
        "",
        "| examples (MNIST7 network, fused) | particles | peak memory beyond the data, MiB |",
        "|---:|---:|---:|",
    ]
    lines += [
        line([f"{row['examples']:,}", str(row["particles"]), mebibytes(row["peak_bytes"])])
        for row in record["growth"]
    ]
    return "\n".join(lines)


def folding_table(record: dict[str, Any]) -> str:
    """The folding record as a table: wall time of a run, islands in one batch or one by one."""
    lines = [
        f"Medians of {record['repeats']} repetitions; {machine_words(record)}.",
        "",
        "| problem | threads | islands × particles | epochs per particle | seconds: folded "
        "| one by one | folded against one by one |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in record["folding"]:
        cells = [row["title"], str(row["threads"]), f"{row['islands']} × {row['particles']}"]
        cells += [f"{row['epochs']:.0f}"]
        cells += [f"{row['seconds'][way]:.2f}" for way in ("folded", "one by one")]
        cells += [f"{row['folded_over_one_by_one']:.2f}×"]
        lines.append(line(cells))
    return "\n".join(lines)


def methods_table(record: dict[str, Any]) -> str:
    """The methods' record as a table: wall time, in seconds and relative to the ensemble's."""
    name, machine = record["experiment"], machine_words(record)
    lines = [
        f"{name}, {record['repeats']} repetition(s), medians; {machine}.",
        "",
        "| method | preset | islands | epochs per chain | epochs in all | seconds "
        "| of these, sampling | relative to the deep ensemble of as many |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in record["methods"]:
        cells = [
            row["method"],
            row["preset"],
            str(row.get("islands", 1)),
            f"{row['epochs']:.0f}",
            f"{row['total_epochs']:,.0f}",
        ]
        cells += [f"{row['seconds']:.1f}", f"{row['sampling_seconds']:.1f}"]
        cells += [f"{row['relative_to_ensemble']:.2f}"]
        lines.append(line(cells))
    return "\n".join(lines)


def machine_words(record: dict[str, Any]) -> str:
    hardware, versions = record["hardware"], record["versions"]
    threads = record["threads"]
    shown = " and ".join(map(str, threads)) if isinstance(threads, list) else threads
    load = f"; load average {record['load']:.1f} before the run" if "load" in record else ""
    return f"{shown} thread(s), {hardware['processor']}, torch {versions['torch']}{load}"


def mebibytes(value: int | None) -> str:
    return "–" if value is None else f"{value / MEBIBYTE:.0f}"


def line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
