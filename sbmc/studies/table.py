"""Tables from records: ours beside the paper's."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sbmc.checks import BadInput
from sbmc.studies.experiments import Experiment, Row
from sbmc.studies.methods import get_method
from sbmc.studies.paper import PaperRow, find_row, gold_standards
from sbmc.studies.records import Record, read_seeds
from sbmc.studies.settings import resolve, settings_hash

if TYPE_CHECKING:
    from rich.console import RenderableType

# Metric of a record, heading, digits. Accuracy is shown in percent.
COLUMNS = (
    ("accuracy", "accuracy %", 1),
    ("nll", "NLL", 3),
    ("entropy.epistemic.correct", "H_ep correct", 3),
    ("entropy.epistemic.incorrect", "H_ep incorrect", 3),
    ("entropy.epistemic.ood.all", "H_ep OOD", 3),
)
SEEDS = range(5)
MISSING = "–"
# The word for the short table, beside the names of sections.
HEADLINE = "headline"


@dataclass(frozen=True)
class Pooled:
    """Several seeds of one setting, taken together.

    Attributes:
        records: what was pooled.
        values: metric name to mean over the seeds.
        errors: metric name to standard error, by the paper's formula.
        cost: cost field to mean over the seeds; None where a record has none.
    """

    records: tuple[Record, ...]
    values: dict[str, float]
    errors: dict[str, float]
    cost: dict[str, float | None]

    def weighted(self, weighting: str) -> Pooled:
        """The same with islands combined in the other way, which is in the records as well."""
        start = f"{weighting}."
        if not any(name.startswith(start) for name in self.values):
            return self  # the records' own way
        values, errors = (
            {
                name.removeprefix(start): value
                for name, value in each.items()
                if name.startswith(start)
            }
            for each in (self.values, self.errors)
        )
        return replace(self, values=values, errors=errors)


def pool(records: Sequence[Record]) -> Pooled:
    """Take the mean over seeds, with its standard error sqrt(mean squared deviation) / sqrt(R).

    Args:
        records: completed runs that differ in nothing but the seed.

    Returns:
        The means. A metric that one of the records lacks is absent.

    Raises:
        BadInput: if there is none, or they differ in experiment, method, settings or data, or a
            seed occurs twice.
    """
    from sbmc.metrics import mean_and_error

    if not records:
        raise BadInput("`records` must be at least one, but got none.")
    first = records[0]
    for record in records[1:]:
        for name in ("experiment", "method", "hash", "data"):
            ours, theirs = getattr(first, name), getattr(record, name)
            if ours != theirs:
                raise BadInput(
                    f"`records` must agree in all but the seed to be pooled, "
                    f"but got {name} {ours!r} and {theirs!r}."
                )
    seeds = [record.seed for record in records]
    if len(set(seeds)) < len(seeds):
        raise BadInput(f"`records` must have different seeds to be pooled, but got {seeds}.")
    values, errors = {}, {}
    for name in first.metrics:
        column = [record.metrics.get(name) for record in records]
        known = [value for value in column if value is not None]
        if len(known) == len(column):
            values[name], errors[name] = mean_and_error(known)
    cost: dict[str, float | None] = {}
    for name in first.cost:
        spent = [record.cost[name] for record in records]
        known = [value for value in spent if value is not None]
        cost[name] = sum(known) / len(known) if len(known) == len(spent) else None
    return Pooled(tuple(records), values, errors, cost)


def find_records(records: Path, experiment: Experiment, row: Row) -> list[Record]:
    """Find the completed records of a table row, of the seeds that tables pool.

    Args:
        records: the folder of all records.
        experiment: whose table it is.
        row: the row.

    Returns:
        The records, in the order of their seeds; none if they are missing.
    """
    settings = resolve(experiment, get_method(row.method), row.preset, row.overrides)
    digest = settings_hash(experiment.name, row.method, settings)
    found = read_seeds(records, experiment.name, row.method, digest)
    return [record for record in found if record.seed in SEEDS]


def within_tolerance(
    metric: str, ours: float, paper: float, our_error: float = 0.0, paper_error: float = 0.0
) -> bool:
    """Say whether our value agrees with the paper's.

    Accuracy: within the larger of one point and three joint standard errors. NLL: within 15 %.
    Entropies: within 50 %, the paper's own tolerance.

    Args:
        metric: the metric's name in a record.
        ours: our value.
        paper: the paper's.
        our_error: our standard error.
        paper_error: the paper's.

    Returns:
        Whether it is within the tolerance; a paper's value of 0 must be met to three digits.

    Example:
        >>> within_tolerance("accuracy", 0.915, 0.923), within_tolerance("nll", 0.30, 0.25)
        (True, False)
    """
    difference = abs(ours - paper)
    if metric == "accuracy":
        joint = math.hypot(our_error, paper_error)
        # The margin is for rounding: 92.3 % and 93.3 % are one point apart.
        return difference <= max(0.01, 3 * joint) + 1e-9
    if paper == 0:
        return difference < 5e-4
    return difference <= (0.15 if metric == "nll" else 0.5) * abs(paper) + 1e-12


@dataclass(frozen=True)
class Line:
    """One line of a finished table: text cells, in the order of `headings`."""

    cells: tuple[str, ...]
    section: bool = False
    quiet: bool = False


def headings() -> list[str]:
    """The columns of the table."""
    return ["", "P", *(h for _, h, _ in COLUMNS), "epochs", "total", "seconds", "× DE"]


def build_table(
    experiment: Experiment, records: Path, sections: Sequence[str] | None = None
) -> list[Line]:
    """Put the lines of an experiment's table together.

    Args:
        experiment: whose table it is.
        records: the folder of all records.
        sections: which parts of the table, `headline` for the short one; all if not given.

    Returns:
        For each row, a line of ours and, where the paper has one, a line of the paper's, in which
        ✓ and ✗ say whether ours is within the tolerance; at the end the paper's long chains, which
        are quoted and not rerun.
    """
    ensembles = _ensemble_seconds(experiment, records)
    lines = []
    shown = [
        row
        for row in experiment.rows
        if sections is None or row.section in sections or (row.headline and HEADLINE in sections)
    ]
    for index, row in enumerate(shown):
        found = find_records(records, experiment, row)
        pooled = pool(found) if found else None
        if pooled is not None and row.weighting is not None:
            pooled = pooled.weighted(row.weighting)
        new_section = index > 0 and row.section != shown[index - 1].section
        lines.append(_our_line(experiment, row, pooled, ensembles, new_section))
        if row.paper:
            paper = find_row(experiment.name, **row.paper)
            if paper:
                lines.append(_paper_line(paper, "  paper", pooled))
    rerun = [row.paper["epochs"] for row in experiment.rows if row.paper and "epochs" in row.paper]
    quoted = [row for row in gold_standards(experiment.name) if row.epochs not in rerun]
    for index, paper in enumerate(quoted):
        label = "paper: HMC, long chain, not rerun"
        lines.append(_paper_line(paper, label, None, section=index == 0))
    return lines


def differences(experiment: Experiment, records: Path) -> list[str]:
    """Say in words where ours is outside the tolerance of the paper's, and why.

    Args:
        experiment: whose table it is.
        records: the folder of all records.

    Returns:
        A line for each row of which a cell is marked ✗, with the reason that the experiment gives.
    """
    lines = []
    for row in experiment.rows:
        paper = find_row(experiment.name, **row.paper) if row.paper else None
        found = find_records(records, experiment, row)
        if paper is None or not found:
            continue
        pooled = pool(found).weighted(row.weighting or "")
        outside = [
            f"{heading} {_number(pooled.values[metric], None, metric, digits)} "
            f"against {_number(paper.values[metric], None, metric, digits)}"
            for metric, heading, digits in COLUMNS
            if metric in pooled.values
            and metric in paper.values
            and not within_tolerance(
                metric,
                pooled.values[metric],
                paper.values[metric],
                pooled.errors[metric],
                paper.errors.get(metric, 0.0),
            )
        ]
        if outside:
            why = row.differs or "no reason is known"
            name = f"{row.label}, P = {_islands(experiment, row)}"
            lines.append(f"{name}: {', '.join(outside)}. Why: {why}")
    return lines


def _islands(experiment: Experiment, row: Row) -> int:
    return resolve(experiment, get_method(row.method), row.preset, row.overrides)["islands"]


def _ensemble_seconds(experiment: Experiment, records: Path) -> dict[int, float]:
    # What "× DE" divides by: the wall time of the deep ensemble of as many networks.
    seconds = {}
    for row in experiment.rows:
        if row.method == "de" and row.preset == "paper":
            found = find_records(records, experiment, row)
            spent = pool(found).cost["wall_seconds"] if found else None
            if spent:
                seconds[_islands(experiment, row)] = spent
    return seconds


def _our_line(
    experiment: Experiment,
    row: Row,
    pooled: Pooled | None,
    ensembles: dict[int, float],
    section: bool,
) -> Line:
    islands = _islands(experiment, row)
    start = (row.label, str(islands))
    if pooled is None:
        return Line((*start, *[MISSING] * (len(headings()) - 2)), section)
    count = len(pooled.records)
    label = row.label if count == len(SEEDS) else f"{row.label} ({count} of {len(SEEDS)} seeds)"
    cells = [
        # One seed tells nothing of its own error.
        _number(
            pooled.values.get(metric),
            pooled.errors.get(metric) if count > 1 else None,
            metric,
            digits,
        )
        for metric, _, digits in COLUMNS
    ]
    seconds, reference = pooled.cost["wall_seconds"], ensembles.get(islands)
    ratio = f"{seconds / reference:.2f}" if seconds and reference else MISSING
    spent = [_count(pooled.cost[name]) for name in ("epochs", "total_epochs", "wall_seconds")]
    return Line((label, str(islands), *cells, *spent, ratio), section)


def _paper_line(paper: PaperRow, label: str, pooled: Pooled | None, section: bool = False) -> Line:
    cells = []
    for metric, _, digits in COLUMNS:
        theirs, error = paper.values.get(metric), paper.errors.get(metric)
        text = _number(theirs, error, metric, digits)
        if pooled is not None and theirs is not None and metric in pooled.values:
            ours, our_error = pooled.values[metric], pooled.errors[metric]
            good = within_tolerance(metric, ours, theirs, our_error, error or 0.0)
            text += " ✓" if good else " ✗"
        cells.append(text)
    islands = str(paper.islands) if paper.islands else MISSING
    spent = [_count(paper.epochs), _count(paper.total_epochs), MISSING, MISSING]
    return Line((label, islands, *cells, *spent), section, quiet=True)


def _number(value: float | None, error: float | None, metric: str, digits: int) -> str:
    if value is None:
        return MISSING
    unit = 100 if metric == "accuracy" else 1
    text = f"{value * unit:.{digits}f}"
    # An error of 0.04 points would vanish among the digits of the value.
    return text if error is None else f"{text}±{error * unit:.{max(digits, 2)}f}"


def _count(value: float | None) -> str:
    return MISSING if value is None else f"{value:,.0f}"


FOOTNOTE = (
    "Mean ± standard error over seeds 0–4. ✓ and ✗ beside the paper's number: ours is within or "
    "outside the tolerance (accuracy: the larger of 1 point and 3 joint standard errors; NLL: "
    "15 %; entropies: 50 %). epochs: per chain; total: of all chains and the anchor; seconds: "
    "wall time, the training of the anchor or the ensemble included; × DE: that, over the time of "
    f"the deep ensemble with the same P. {MISSING}: no record, or not measured."
)


def render(title: str, lines: Sequence[Line]) -> RenderableType:
    """Turn lines into a table for the terminal.

    Args:
        title: what stands above it.
        lines: from `build_table`.

    Returns:
        Something that a rich console prints.
    """
    from rich.table import Table

    table = Table(title=title, title_justify="left", header_style="bold", pad_edge=False)
    for index, heading in enumerate(headings()):
        table.add_column(heading, justify="left" if index == 0 else "right", no_wrap=index > 0)
    for line in lines:
        if line.section:
            table.add_section()
        table.add_row(*line.cells, style="dim" if line.quiet else None)
    return table


def render_markdown(lines: Sequence[Line]) -> str:
    """Turn lines into a Markdown table, as the README has it.

    Args:
        lines: from `build_table`.

    Returns:
        The table's text.
    """
    rows = [headings(), ["---"] + ["---:"] * (len(headings()) - 1)]
    rows += [[f"*{c.strip()}*" if line.quiet else c for c in line.cells] for line in lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


_MARKED = re.compile(r"(<!-- table: (\w+)((?: \w+)*) -->\n).*?(<!-- end: \2 -->)", re.DOTALL)


def write_tables(page: str, experiment: Experiment, records: Path) -> str:
    """Put an experiment's tables into a page, between the marks that name it.

    A mark is `<!-- table: NAME -->` or, for some sections only, `<!-- table: NAME paper best -->`;
    the end is `<!-- end: NAME -->`.

    Args:
        page: the text of a Markdown page.
        experiment: whose tables.
        records: the folder of all records.

    Returns:
        The page with its tables made anew.

    Raises:
        BadInput: if the page has no such mark.
    """
    marks = [mark for mark in _MARKED.finditer(page) if mark[2] == experiment.name]
    if not marks:
        raise BadInput(
            f"`write` must be a page with `<!-- table: {experiment.name} -->` in it, but got none."
        )

    def made(mark: re.Match[str]) -> str:
        if mark[2] != experiment.name:
            return mark[0]
        lines = build_table(experiment, records, mark[3].split() or None)
        return f"{mark[1]}\n{render_markdown(lines)}\n\n{mark[4]}"

    return _MARKED.sub(made, page)
