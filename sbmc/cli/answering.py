"""The work of `sbmc predict` and `sbmc evaluate`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbmc.checks import require
from sbmc.cli.opening import DataOptions, open_posterior, read_rows, report_health, require_new_file
from sbmc.cli.tables import print_wide
from sbmc.prediction.predictive import checked_level
from sbmc.report.answers import Answers, abstention, answer
from sbmc.report.measures import measure, measures_of, show

if TYPE_CHECKING:
    from rich.table import Table

# Rows that are printed, at most.
MOST_PRINTED = 40


def run_predict(
    file: Path,
    data: Path,
    out: Path | None,
    *,
    model: str | None = None,
    options: DataOptions | None = None,
    level: float = 0.9,
    abstain_above: float | None = None,
    probabilities: bool = False,
    quiet: bool = False,
    any_health: bool = False,
) -> int:
    """Answer for each row of some data.

    Args:
        file: the posterior.
        data: the rows.
        out: the table to write; None prints it.
        model: a reference to the network, if the file needs one.
        options: what the user says about the data.
        level: of intervals.
        abstain_above: the threshold of abstention.
        probabilities: whether to add those of all classes.
        quiet: no progress.
        any_health: whether the exit code is 0 also if the posterior is not healthy.

    Returns:
        The exit code.

    Raises:
        BadInput: an argument breaks its rule.
    """
    if out is not None:
        require_new_file(out)
        good = out.suffix.lower() in (".csv", ".tsv")
        require(good, "out", "a file that ends in .csv or .tsv", str(out))
    level = checked_level(level)
    posterior = open_posterior(file, model)
    rows = read_rows(posterior.recipe, data, options, target_use="ignored")
    answers = answer(
        posterior,
        rows,
        level=level,
        abstain_above=abstain_above,
        probabilities=probabilities,
        progress=False if quiet else None,
    )
    if out is None:
        print_wide(_table(answers))
        if len(answers) > MOST_PRINTED:
            more = len(answers) - MOST_PRINTED
            print(f"... and {more:,} rows more; --out answers.csv writes all of them")
    else:
        answers.write(out)
        print(f"{out}: {len(answers):,} answers")
    _say_abstentions(answers)
    return report_health(posterior, any_health=any_health)


def run_evaluate(
    file: Path,
    data: Path,
    *,
    model: str | None = None,
    options: DataOptions | None = None,
    level: float = 0.9,
    abstain_above: float | None = None,
    as_json: bool = False,
    quiet: bool = False,
    any_health: bool = False,
) -> int:
    """Measure a posterior on rows whose targets are known.

    Args:
        file: the posterior.
        data: the rows, with targets.
        model: a reference to the network, if the file needs one.
        options: what the user says about the data.
        level: of intervals.
        abstain_above: the threshold of abstention.
        as_json: whether to print JSON instead of a table.
        quiet: no progress.
        any_health: whether the exit code is 0 also if the posterior is not healthy.

    Returns:
        The exit code.

    Raises:
        BadInput: an argument breaks its rule.
    """
    level = checked_level(level)
    posterior = open_posterior(file, model)
    rows = read_rows(posterior.recipe, data, options, target_use="required")
    inputs, targets = rows.with_targets()
    prediction = posterior.predict(inputs, progress=False if quiet else None)
    doubt = abstention(posterior, prediction, abstain_above)
    metrics = measure(prediction, targets, doubt, level)
    if as_json:
        content = {
            "rows": len(rows),
            "metrics": metrics,
            "abstain": doubt.rule,
            "health": posterior.health.as_dict(),
        }
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        print_wide(
            _metrics_table(metrics, measures_of(prediction), f"{rows.source}: {len(rows):,}")
        )
    return report_health(posterior, any_health=any_health)


def _table(answers: Answers) -> Table:
    from rich.table import Table

    table = Table(pad_edge=False)
    for name in answers.columns:
        right = isinstance(answers.columns[name][0], float)
        table.add_column(name, justify="right" if right else "left")
    shown = [column[:MOST_PRINTED] for column in answers.columns.values()]
    for cells in zip(*shown, strict=True):
        table.add_row(*(f"{c:.4g}" if isinstance(c, float) else _plain(c) for c in cells))
    return table


def _metrics_table(metrics: dict[str, float], measures: dict[str, Any], title: str) -> Table:
    from rich.table import Table

    table = Table(title=f"{title} rows", title_justify="left", pad_edge=False)
    for name in ("measure", "value", "meaning"):
        table.add_column(name, justify="right" if name == "value" else "left")
    for name, about in measures.items():
        if name in metrics:
            table.add_row(about.label, show(name, metrics[name], measures), about.meaning)
    return table


def _plain(cell: object) -> str:
    # Square brackets would be read as styles.
    return str(cell).replace("[", "\\[")


def _say_abstentions(answers: Answers) -> None:
    doubt = answers.abstention
    if doubt.abstain is None:
        print(f"sbmc: no abstentions: {doubt.rule}.", file=sys.stderr)
        return
    count = int(doubt.abstain.sum())
    print(
        f"sbmc: abstained from {count:,} of {len(answers):,} (where {doubt.rule}).", file=sys.stderr
    )
