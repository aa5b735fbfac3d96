"""The tables of the paper's appendix, made anew: a row for each row of the paper's.

A study's configuration names the tables (`[[tables]]`); which methods, s, v and P there are is read
from the paper's own table, and `rules` add what the paper says elsewhere, such as the number of
mutations.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from sbmc.report.numbers import MISSING
from sbmc_studies.experiments.experiment import Experiment, Row
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.settings import resolve
from sbmc_studies.paper.numbers import PaperRow, paper_rows, read_table
from sbmc_studies.paper.tables.columns import entropies, first_order
from sbmc_studies.paper.tables.lines import (
    PAPER,
    Column,
    Entry,
    Line,
    our_cells,
    paper_cells,
    plain,
    seeded_label,
)
from sbmc_studies.records.finding import Runs, runs_of
from sbmc_studies.records.pooling import Pooled

LONG_CHAIN = "hmc-gs"
NOT_RERUN = "paper: HMC, long chain, not rerun"

FOOTNOTE = (
    "S-SMC's islands are combined in both ways, by evidence and with equal weights; the paper's "
    "numbers, which are nearer to those of equal weights, are marked against the latter. "
    f"{MISSING}: no record, or not given."
)


@dataclass(frozen=True)
class Spec:
    """What a configuration says of one of the paper's tables.

    Attributes:
        paper: name of the paper's table.
        title: what stands above it.
        rules: settings (`set`) of the rows of a `method`, perhaps only of those with one `s`.
        chain: label of the study's row that stands for the paper's long chain, if one does.
    """

    paper: str
    title: str
    rules: tuple[Mapping[str, Any], ...] = ()
    chain: str | None = None

    @property
    def by_group(self) -> bool:
        """Whether it has a row for each group, and not one for each method."""
        return "entropy_per_" in self.paper


@dataclass(frozen=True)
class Block:
    """A finished table.

    Attributes:
        name: of the paper's table, or of the study for a table of our own.
        title: what it shows.
        headings: of its columns.
        lines: its rows.
        papers: names of the paper's tables that stand beside ours.
        filled: whether a run fills a line of it.
    """

    name: str
    title: str
    headings: tuple[str, ...]
    lines: tuple[Line, ...]
    papers: tuple[str, ...] = ()
    filled: bool = True

    @property
    def caption(self) -> str:
        """What stands above it."""
        return f"{self.name}: {self.title}"


@cache
def appendix_specs(experiment: str) -> tuple[Spec, ...]:
    """The tables of the paper's appendix that a study makes anew.

    Args:
        experiment: the study's name.

    Returns:
        The tables, in the order of its configuration.

    Example:
        >>> [spec.paper for spec in appendix_specs("cifar10")][:2]
        ['cifar10_s_ablation', 'cifar10_p_ablation_s005']
    """
    file = resources.files("sbmc_studies").joinpath(f"experiments/configs/{experiment}.toml")
    tables = tomllib.loads(file.read_text("utf-8")).get("tables", ())
    return tuple(
        Spec(each["paper"], each["title"], tuple(each.get("rules", ())), each.get("chain"))
        for each in tables
    )


def row_like(experiment: Experiment, spec: Spec, paper: PaperRow) -> Row | None:
    """Our row beside one of the paper's.

    Args:
        experiment: whose.
        spec: the table.
        paper: the paper's row.

    Returns:
        The row, with all that differs from the paper's preset; None for a chain that is not rerun.
    """
    if paper.method == LONG_CHAIN:
        return _chain(experiment, spec, paper)
    return paper_setting(experiment, spec, paper.method, paper.s, paper.variance, paper.islands)


def paper_setting(
    experiment: Experiment,
    spec: Spec,
    method: str,
    s: float | None,
    variance: float | None,
    islands: int | None,
) -> Row:
    """A row from what identifies one in the paper's tables.

    Args:
        experiment: whose.
        spec: the table, whose rules apply.
        method: the method's name.
        s: the anchoring parameter.
        variance: the prior variance.
        islands: the paper's P.

    Returns:
        The row.
    """
    found = get_method(method)
    overrides: dict[str, Any] = {}
    if variance is not None:
        overrides["prior_variance"] = variance
    if s is not None and "s" not in found.fixed:
        overrides["s"] = s
    if islands is not None and "islands" not in found.fixed:
        overrides["islands"] = islands
    for rule in spec.rules:
        if rule["method"] == method and rule.get("s", s) == s:
            overrides |= rule["set"]
    anchored = f", s = {s:g}" if "s" in overrides else ""
    return Row(f"{found.label}{anchored}", method, "paper", overrides, section=spec.paper)


def build_appendix(
    experiment: Experiment, source: Path | Runs, tables: Sequence[str] | None = None
) -> list[Block]:
    """Make the tables of the paper's appendix that the study names.

    Args:
        experiment: whose.
        source: the folder of all records, or runs that were found otherwise.
        tables: names of the paper's tables; all of the study's if not given.

    Returns:
        The tables: those of methods in two parts, as the paper prints them (metrics and epistemic
        entropies, then total entropies); those of groups whole.
    """
    from sbmc_studies.paper.tables.groups import build_groups

    blocks = []
    for spec in appendix_specs(experiment.name):
        if tables is not None and spec.paper not in tables:
            continue
        if spec.by_group:
            blocks.append(build_groups(experiment, spec, source))
        else:
            blocks += build_ablation(experiment, spec, source)
    return blocks


def build_ablation(experiment: Experiment, spec: Spec, source: Path | Runs) -> list[Block]:
    """Make one of the paper's tables of methods.

    Args:
        experiment: whose.
        spec: which one.
        source: the folder of all records, or runs that were found otherwise.

    Returns:
        Two tables: accuracy, NLL, Brier score, ECE and H_ep; and H_tot.
    """
    ece = "ece" in read_table(spec.paper)[0]
    parts = {
        "": (*first_order(ece=ece), *entropies(experiment, "epistemic")),
        ", total entropies": entropies(experiment, "total"),
    }
    runs = runs_of(source, experiment.name)
    rows = [(paper, row_like(experiment, spec, paper)) for paper in paper_rows(spec.paper)]
    found = [runs.pooled(row) if row else None for _, row in rows]
    blocks = []
    for words, columns in parts.items():
        lines: list[Line] = []
        for (paper, row), whole in zip(rows, found, strict=True):
            lines += _lines(paper, row, whole, columns)
        headings = ("", "P", *(column.heading for column in columns), "epochs")
        title, filled = f"{spec.title}{words}", any(found)
        blocks.append(Block(spec.paper, title, headings, tuple(lines), (spec.paper,), filled))
    return blocks


def _lines(
    paper: PaperRow, row: Row | None, whole: Pooled | None, columns: Sequence[Column]
) -> list[Line]:
    islands = plain(paper.islands)
    lines: list[Line] = []
    pooled: Pooled | None = None
    if row is not None:
        ways = {"": ""}
        if paper.method.endswith("smc") and (paper.islands or 1) > 1:
            ways = {", by evidence": "evidence", ", equal weights": "equal"}
        for words, weighting in ways.items():
            pooled = whole.weighted(weighting) if whole else None
            lines.append(_our_line(f"{row.label}{words}", islands, pooled, columns))
    label = PAPER if row is not None else NOT_RERUN
    cells = (*paper_cells(paper, pooled, columns), plain(paper.epochs, ",g"))
    return [*lines, Line((label, islands, *cells), quiet=True)]


def _our_line(label: str, islands: Entry, pooled: Pooled | None, columns: Sequence[Column]) -> Line:
    if pooled is None:
        return Line((label, islands, *[MISSING] * (len(columns) + 1)))
    spent = plain(pooled.cost["epochs"], ",.4g")
    return Line((seeded_label(label, pooled), islands, *our_cells(pooled, columns), spent))


def _chain(experiment: Experiment, spec: Spec, paper: PaperRow) -> Row | None:
    row = chain_row(experiment, spec)
    if row is None:
        return None
    steps = resolve(experiment, get_method(row.method), row.preset, row.overrides)["steps"]
    return row if steps == paper.epochs else None


def chain_row(experiment: Experiment, spec: Spec) -> Row | None:
    """The study's row that stands for the paper's long chain, if the table names one."""
    return next((row for row in experiment.rows if row.label == spec.chain), None)
