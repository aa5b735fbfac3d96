"""Markdown tables of the run that is worked out on paper, from its record and nothing else."""

from __future__ import annotations

from typing import Any

from benchmarks.scaling_tables import format_seconds
from benchmarks.tables import line

YEAR = 365 * 86_400.0


def constants_table(record: dict[str, Any]) -> str:
    """What was measured, with its command, and what is assumed, with its option."""
    found, run = record["constants"], record["run"]
    measured = [
        ("a particle, an example and a parameter", f"{1e12 * found['multiply']:.1f} ps", "ranks"),
        (
            "a mini-batch besides, a particle and a parameter",
            f"{1e9 * found['vector']:.1f} ns",
            "ranks",
        ),
        ("an exchange with next to no content", f"{1e3 * found['exchange']:.2f} ms", "ranks"),
        ("bytes of an exchange", f"{found['rate'] / 1e6:.0f} MB/s", "ranks"),
        ("spread of times (standard deviation of the log)", f"{found['spread']:.3f}", "scaling"),
        ("mini-batches from a mapped file", f"{found['read'] / 1e6:.0f} MB/s", "big_data"),
        ("a prediction, in evaluations", f"{found['predict']:.2f}", "prediction"),
        ("a small state", f"{1e3 * found['write']:.1f} ms", "checkpoint_overhead"),
    ]
    assumed = [
        ("numbers of an example", f"{run['features']:,}", "features"),
        ("classes", f"{run['classes']:,}", "classes"),
        ("examples of a mini-batch", f"{run['batch']:,}", "batch"),
        ("network between two machines", f"{8e-9 * run['network']:.0f} Gbit/s", "network"),
        ("a message between two machines", f"{1e3 * run['latency']:.1f} ms", "latency"),
        ("disk of an island", f"{bytes_words(run['disk'])}/s", "disk"),
        ("memory of a machine", bytes_words(run["memory"]), "memory"),
        ("a rank dies once in", length(run["days"] * 86_400), "days"),
        ("a run may take", length(run["patience"] * 86_400), "patience"),
        ("a rank with a GPU is as fast as", f"{run['accelerated']:,.0f} ranks", "accelerated"),
    ]
    lines = ["| constant | value | from |", "|---|---:|---|"]
    lines += [line([a, b, f"measured, `python -m benchmarks.{c}`"]) for a, b, c in measured]
    lines += [line([a, b, f"assumed, `--{c}`"]) for a, b, c in assumed]
    return "\n".join(lines)


def memory_table(record: dict[str, Any]) -> str:
    """What depends on the parameters alone."""
    run = record["run"]
    lines = [
        f"| parameters | rank 0: HMC, {run['particles']} particles | SGHMC, {run['particles']} "
        "| SGHMC, one at a time | another rank: a message | a snapshot | its writing "
        f"| {run['islands']} islands, finished |",
        "|---:" * 8 + "|",
    ]
    for row in record["memory"]:
        cells = [size(row["parameters"])]
        cells += [bytes_words(row[name]) for name in ("hmc", "sghmc", "one", "other", "snapshot")]
        cells += [length(row["snapshot_seconds"]), bytes_words(row["results"])]
        lines.append(line(cells))
    return "\n".join(lines)


def messages_table(record: dict[str, Any]) -> str:
    """What the ranks of one island say to each other."""
    run = record["run"]
    words = {"evaluation": "all data", "batch": f"mini-batch of {run['batch']:,}"}
    lines = [
        "| parameters | evaluation | messages | bytes, one other rank "
        f"| bytes, all {run['ranks'] - 1} others | seconds |",
        "|---:|---|---:|---:|---:|---:|",
    ]
    for row, seconds in zip(record["messages"], record["exchange_seconds"], strict=True):
        cells = [size(row["parameters"]), words[row["kind"]], f"{row['messages']:,}"]
        cells += [bytes_words(row["bytes"]), bytes_words(row["all_bytes"]), f"{seconds:.3g}"]
        lines.append(line(cells))
    totals = record["traffic"]
    lines += [
        "",
        f"| one island of {size(run['parameters'])} parameters and {size(run['examples'])} "
        "examples | messages | bytes, all ranks |",
        "|---|---:|---:|",
    ]
    for name, title in _titles(run).items():
        total = totals[name]
        lines.append(line([title, f"{total['messages']:,}", bytes_words(total["bytes"])]))
    return "\n".join(lines)


def data_table(record: dict[str, Any]) -> str:
    """What depends on the examples alone."""
    lines = [
        "| examples | inputs | a shard | reading it once | rank 0 sends held shards in "
        "| targets, held by rank 0 | predictions, held |",
        "|---:" * 7 + "|",
    ]
    for row in record["data"]:
        cells = [size(row["examples"])]
        cells += [bytes_words(row[name]) for name in ("inputs", "shard")]
        cells += [length(row[name]) for name in ("read_seconds", "send_seconds")]
        cells += [bytes_words(row[name]) for name in ("targets", "predictions")]
        lines.append(line(cells))
    return "\n".join(lines)


def hours_table(record: dict[str, Any]) -> str:
    """How long islands take, as measured threads and as faster ranks compute."""
    run = record["run"]
    hmc, sghmc = _titles(run).values()
    lines = [
        f"| examples | parameters | an evaluation | a mini-batch step | exchange, of the step "
        f"| {hmc} | {sghmc} | no rank dies between snapshots: HMC | SGHMC "
        f"| {run['accelerated']:,.0f} times as fast: HMC | SGHMC | exchange, of the step |",
        "|---:" * 12 + "|",
    ]
    for slow, fast in zip(record["times"], record["accelerated"], strict=True):
        cells = [size(slow["examples"]), size(slow["parameters"])]
        cells += [length(slow["evaluation"]), length(slow["step"]), _exchange_part(slow)]
        cells += [length(slow["hmc"]), length(slow["sghmc"])]
        cells += [_percent(slow["survives"][name]) for name in ("hmc", "sghmc")]
        cells += [length(fast["hmc"]), length(fast["sghmc"]), _exchange_part(fast)]
        lines.append(line(cells))
    return "\n".join(lines)


def batches_table(record: dict[str, Any]) -> str:
    """The same pass in larger mini-batches."""
    fast = f"{record['run']['accelerated']:,.0f} times as fast"
    lines = [
        "| examples of a mini-batch | steps of an island | bytes, all ranks | SGHMC "
        f"| {fast} | of which exchange |",
        "|---:" * 6 + "|",
    ]
    for row in record["batches"]:
        cells = [f"{row['batch']:,}", f"{row['steps']:,}", bytes_words(row["bytes"])]
        cells += [length(row["seconds"]), length(row["accelerated"]), f"{row['exchange']:.0%}"]
        lines.append(line(cells))
    return "\n".join(lines)


def limits_table(record: dict[str, Any]) -> str:
    """What the whole run needs beside what there is."""
    lines = ["| | needed | there is | times over |", "|---|---:|---:|---:|"]
    for row in record["limits"]:
        words = length if row["unit"] == "seconds" else bytes_words
        over = f"{row['over']:,.0f}" if row["over"] >= 10 else f"{row['over']:.2g}"
        shown = f"**{over}**" if row["over"] > 1 else over
        lines.append(line([row["what"], words(row["needed"]), words(row["allowed"]), shown]))
    return "\n".join(lines)


def _titles(run: dict[str, Any]) -> dict[str, str]:
    passes = "one pass" if run["passes"] == 1 else f"{run['passes']:,} passes"
    return {"hmc": f"HMC, {run['epochs']:,} evaluations", "sghmc": f"SGHMC, {passes}"}


def _exchange_part(row: dict[str, Any]) -> str:
    return f"{1 - row['step_computing'] / row['step']:.0%}"


def _percent(chance: float) -> str:
    return "under 1%" if chance < 0.01 else f"{chance:.0%}"


def size(count: int) -> str:
    """A power of ten as such.

    Examples:
        >>> size(1_000_000), size(1_500)
        ('10⁶', '1,500')
    """
    digits = str(count)
    if count >= 10 and digits.strip("0") == "1":
        return "10" + str(len(digits) - 1).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{count:,}"


def bytes_words(count: float) -> str:
    """Bytes in decimal units.

    Examples:
        >>> bytes_words(12), bytes_words(1.48e11), bytes_words(4e12)
        ('12 B', '148 GB', '4 TB')
    """
    for unit, name in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            value = count / unit
            return f"{value:,.0f} {name}" if value >= 100 else f"{value:.3g} {name}"
    return f"{count:.0f} B"


def length(seconds: float) -> str:
    """A length of time, from milliseconds to years.

    Examples:
        >>> length(0.012), length(1.5), length(90.0), length(1e9)
        ('12 ms', '1.5 s', '1.5 min', '31.7 years')
    """
    if seconds < 0.9995:
        return f"{1e3 * seconds:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    years = seconds / YEAR
    if years >= 1:
        return f"{years:,.0f} years" if years >= 100 else f"{years:.3g} years"
    return format_seconds(seconds)
