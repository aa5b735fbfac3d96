"""What a run shows when it is done: a table, a sentence, a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from sbmc.checks import BadInput
from sbmc.cli.tables import print_wide
from sbmc.report.numbers import MISSING
from sbmc_studies.experiments.experiment import Experiment
from sbmc_studies.experiments.methods import METHODS, method_label
from sbmc_studies.figures.sure_unsure import draw_file
from sbmc_studies.paper.tables.columns import table_columns
from sbmc_studies.records.health import health_of, pooled_verdict
from sbmc_studies.records.pooling import Pooled, pool
from sbmc_studies.records.record import Record
from sbmc_studies.runs.runner import Run

PICTURE = "sure_and_unsure.png"


def show_methods() -> None:
    """Print all methods, a line each: name, what it is, what it costs in epochs."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("method", "what it is", "cost in epochs"):
        table.add_column(heading)
    for name, method in METHODS.items():
        table.add_row(name, method.description, method.cost)
    print_wide(table)


def show_comparison(experiment: Experiment, runs: Sequence[Run], out: Path) -> None:
    """Print the table of some runs; for a comparison, print what it means and draw its figure.

    Args:
        experiment: what was studied.
        runs: completed runs.
        out: folder of the records; the figure goes to the experiment's folder in it.
    """
    groups = _pool_runs(runs)
    print_wide(_table(experiment, groups))
    for line in verdicts(groups):
        print(line)
    sentence = meaning({pooled.records[0].method: pooled for pooled in groups})
    if sentence:
        print(sentence)
        _draw(runs[-1], out / experiment.name / PICTURE)


def _pool_runs(runs: Sequence[Run]) -> list[Pooled]:
    by_setting: dict[tuple[str, str], list[Record]] = {}
    for each in runs:
        for record in (*each.prefixes.values(), each.record):
            by_setting.setdefault((record.method, record.hash), []).append(record)
    return [pool(records) for records in by_setting.values()]


def _table(experiment: Experiment, groups: Sequence[Pooled]) -> Table:
    seeds = groups[0].records
    count = f"mean ± standard error over {len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    table = Table(title=f"{experiment.name}: {count}", title_justify="left", pad_edge=False)
    table.add_column("")
    table.add_column("P", justify="right")
    columns = table_columns(experiment)
    for _, heading, _ in columns:
        table.add_column(heading.replace("H_ep ", "H_ep\n").replace(" ", "\n"), justify="right")
    table.add_column("epochs", justify="right")
    table.add_column("seconds", justify="right")
    table.add_column("health")
    for pooled in groups:
        first = pooled.records[0]
        cells = [_cell(pooled, metric, digits) for metric, _, digits in columns]
        spent = [_plain(pooled.cost[name]) for name in ("epochs", "wall_seconds")]
        label = method_label(first.method)
        cells = [str(first.settings["islands"]), *cells, *spent, pooled_verdict(pooled.records)]
        table.add_row(label, *cells)
    return table


def verdicts(groups: Sequence[Pooled]) -> list[str]:
    """A line for each run whose health is not ok: why, and what to try."""
    return [
        f"{method_label(record.method)}, seed {record.seed}: {health_of(record)}"
        for pooled in groups
        for record in pooled.records
        if health_of(record).ok is False
    ]


def _cell(pooled: Pooled, metric: str, digits: int) -> str:
    if metric not in pooled.values:
        return MISSING
    unit = 100 if metric == "accuracy" else 1
    text = f"{pooled.values[metric] * unit:.{digits}f}"
    if len(pooled.records) > 1:
        text += f"±{pooled.errors[metric] * unit:.{max(digits, 2)}f}"
    return text


def _plain(value: float | None) -> str:
    return MISSING if value is None else f"{value:.0f}"


def meaning(results: dict[str, Pooled]) -> str:
    """Say in one sentence what a comparison of MAP, deep ensemble and S-HMC∥ shows.

    Args:
        results: pooled runs by method.

    Returns:
        The sentence, made from the numbers; empty if one of the three is missing.
    """
    if not {"map", "de", "s-hmc"} <= set(results):
        return ""
    accuracy = {name: results[name].values["accuracy"] for name in ("map", "de", "s-hmc")}
    outside = "entropy.epistemic.ood.all"
    ours, ensemble = results["s-hmc"].values[outside], results["de"].values[outside]
    return (
        f"What it means: S-HMC∥ is right on {accuracy['s-hmc']:.1%} of the test inputs (deep "
        f"ensemble {accuracy['de']:.1%}, MAP {accuracy['map']:.1%}), and on inputs unlike its "
        f"training data its epistemic entropy is {ours:.2f}, {ours / ensemble:.1f} times the deep "
        f"ensemble's {ensemble:.2f}; MAP's is 0, since one network alone cannot say that it does "
        f"not know."
    )


def _draw(run: Run, target: Path) -> None:
    label = method_label(run.record.method)
    try:
        print(f"Picture: {draw_file(run.path.parent, target, label)}")
    except BadInput as error:
        print(f"No picture: {error}")
