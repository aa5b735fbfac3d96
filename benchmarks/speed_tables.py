"""Markdown tables of the speed benchmark, from its record and from nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.goals import GOALS, Goal, figure, find_row, show
from benchmarks.tables import line, machine_words, mebibytes

OURS = "sbmc"
NAMES = {
    "plain": "plain PyTorch",
    "pyro": "Pyro",
    "blackjax": "BlackJAX",
    "numpyro": "NumPyro",
    "patches": "BlackJAX, patches by hand",
    "posteriors": "posteriors",
    "full": "sbmc, HMC on all data",
    "trainings": "plain PyTorch trainings",
}
ALGORITHMS = {"hmc": "HMC", "smc": "SMC", "sghmc": "SGHMC", "ensemble": "ensemble"}
AGAINST = {
    "plain": "a plain loop over particles",
    "pyro": "Pyro, chain after chain",
    "jax": "the best JAX peer",
    "roofline": "roofline",
    "full": "an epoch on all data",
    "posteriors": "posteriors",
    "trainings": "a loop of plain trainings",
}


def speed_table(record: Mapping[str, Any]) -> str:
    """Seconds and ratios, the machine's share, and what it takes to begin and to hold."""
    rows = record["rows"]
    peers = [name for name in NAMES if any(name in row["contenders"] for row in rows)]
    rates = rows[0]["rates"]
    lines = [
        f"Medians of {record['repeats']} turns; {machine_words(record)}. The machine multiplied "
        f"matrices at {rates['flops_per_second'] / 1e9:.0f} GFLOP/s and copied at "
        f"{rates['bytes_per_second'] / 1e9:.0f} GB/s.",
        "",
        "Milliseconds per epoch and particle, in brackets how many times as long as sbmc:",
        "",
        line(["problem", "", "particles", OURS, *(NAMES[name] for name in peers), "roofline"]),
        "|---|---" + "|---:" * (3 + len(peers)) + "|",
    ]
    for row in rows:
        cells = [row["title"], ALGORITHMS[row["algorithm"]], f"{row['particles']:,}"]
        cells += [_seconds(row, name) for name in (OURS, *peers)]
        roofline = row["roofline"]
        lines.append(line([*cells, "–" if roofline is None else f"{roofline:.0%}"]))
    lines += [
        *_apart(rows),
        "",
        "Seconds to compile or warm up, and peak memory of the whole process in MiB:",
        "",
        line(["problem", "", "particles", OURS, *(NAMES[name] for name in peers)]),
        "|---|---" + "|---:" * (2 + len(peers)) + "|",
    ]
    for row in rows:
        cells = [row["title"], ALGORITHMS[row["algorithm"]], f"{row['particles']:,}"]
        lines.append(line([*cells, *(_burden(row, name) for name in (OURS, *peers))]))
    return "\n".join(lines)


def goals_table(record: Mapping[str, Any], goals: Sequence[Goal] = GOALS) -> str:
    """What was to be reached, and what was: ✓ for a goal that is met."""
    lines = [
        line(["problem", "particles", "against", "measured", "required", "", "goal", ""]),
        "|---|---:|---|---:|---:|---|---:|---|",
    ]
    for goal in goals:
        row = find_row(record, goal)
        got = figure(row, goal.against) if row else None
        lines.append(
            line(
                [
                    row["title"] if row else goal.workload,
                    f"{goal.particles:,}",
                    AGAINST[goal.against],
                    "not measured" if got is None else show(got, goal),
                    show(goal.required, goal),
                    _mark(got, goal.required),
                    show(goal.goal, goal),
                    _mark(got, goal.goal),
                ]
            )
        )
    return "\n".join(lines)


def whole_speed_table(record: Mapping[str, Any], goals: Sequence[Goal] = GOALS) -> str:
    """Both, for the page."""
    return f"{speed_table(record)}\n\nWhat was to be reached:\n\n{goals_table(record, goals)}"


def _apart(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which rows were measured in a run of their own, and how busy the machine was then."""
    loads = {row["title"]: row["apart"]["load"] for row in rows if "apart" in row}
    listed = "; ".join(f"{title} (load average {load:.1f})" for title, load in loads.items())
    return ["", f"Measured in a run of their own: {listed}."] if loads else []


def _mark(got: float | None, needed: float) -> str:
    return "✓" if got is not None and got >= needed else "✗"


def _seconds(row: Mapping[str, Any], name: str) -> str:
    result = row["contenders"].get(name)
    if result is None:
        return "–"
    if "error" in result:
        return "failed"
    shown = f"{1e3 * result['seconds_per_epoch_and_particle']:.3g}"
    ratio = row["ratios"].get(name)
    return shown if ratio is None else f"{shown} ({ratio:.3g}×)"


def _burden(row: Mapping[str, Any], name: str) -> str:
    result = row["contenders"].get(name)
    if result is None or "error" in result:
        return "–"
    return f"{result['warm_up_seconds']:.1f} s, {mebibytes(result['peak_bytes'])}"
