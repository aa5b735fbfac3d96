"""Markdown tables from the records of the benchmarks, and from nothing else."""

from __future__ import annotations

from typing import Any

MEBIBYTE = 2**20


def engine_table(record: dict[str, Any]) -> str:
    """The engine's record as two tables: speed and memory of the paths, and memory by examples."""
    lines = [
        f"Medians of {record['repeats']} repetitions; {_machine(record)}.",
        "",
        "| problem | particles | milliseconds per epoch and particle: fused | vmap | loop "
        "| fused against vmap | fused against loop | peak memory, MiB: fused | vmap | loop |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in record["speed"]:
        seconds, peaks = row["seconds_per_epoch_and_particle"], row["peak_bytes"]
        cells = [row["title"], str(row["particles"])]
        cells += [f"{1e3 * seconds[path]:.2f}" for path in ("fused", "vmap", "loop")]
        cells += [f"{row['fused_over_vmap']:.1f}×", f"{row['fused_over_loop']:.1f}×"]
        cells += [_mebibytes(peaks and peaks[path]) for path in ("fused", "vmap", "loop")]
        lines.append(_line(cells))
    lines += [
        "",
        "| examples (MNIST7 network, fused) | particles | peak memory beyond the data, MiB |",
        "|---:|---:|---:|",
    ]
    lines += [
        _line([f"{row['examples']:,}", str(row["particles"]), _mebibytes(row["peak_bytes"])])
        for row in record["growth"]
    ]
    return "\n".join(lines)


def methods_table(record: dict[str, Any]) -> str:
    """The methods' record as a table: wall time, in seconds and relative to the deep ensemble's."""
    lines = [
        f"{record['experiment']}, {record['repeats']} repetition(s), medians; {_machine(record)}.",
        "",
        "| method | preset | epochs per chain | epochs in all | seconds | of these, sampling "
        "| relative to the deep ensemble |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in record["methods"]:
        cells = [
            row["method"],
            row["preset"],
            f"{row['epochs']:.0f}",
            f"{row['total_epochs']:,.0f}",
        ]
        cells += [f"{row['seconds']:.1f}", f"{row['sampling_seconds']:.1f}"]
        cells += [f"{row['relative_to_ensemble']:.2f}"]
        lines.append(_line(cells))
    return "\n".join(lines)


def _machine(record: dict[str, Any]) -> str:
    hardware, versions = record["hardware"], record["versions"]
    return f"{record['threads']} thread(s), {hardware['processor']}, torch {versions['torch']}"


def _mebibytes(value: int | None) -> str:
    return "–" if value is None else f"{value / MEBIBYTE:.0f}"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
