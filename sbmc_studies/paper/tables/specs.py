"""What a study's configuration says of the tables of the paper's appendix (`[[tables]]`)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from sbmc_studies.experiments.experiment import Experiment, Row
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.paper.tables.lines import Line

LONG_CHAIN = "hmc-gs"
NOT_RERUN = "paper: HMC, long chain, not rerun"


@dataclass(frozen=True)
class Spec:
    """What a configuration says of one of the paper's tables.

    Attributes:
        paper: name of the paper's table.
        title: the text above it.
        rules: settings (`set`) of the rows of a `method`, perhaps only of those with one `s`.
        chain: label of the study's row that is shown beside the paper's long chain, if any.
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
        papers: names of the paper's tables that are shown beside ours.
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
        """The text above it."""
        return f"{self.name}: {self.title}"


@cache
def appendix_specs(experiment: str) -> tuple[Spec, ...]:
    """The tables of the paper's appendix that a study makes anew.

    Args:
        experiment: the study's name.

    Returns:
        The tables, in the order of its configuration.

    Examples:
        >>> [spec.paper for spec in appendix_specs("cifar10")][:2]
        ['cifar10_s_ablation', 'cifar10_p_ablation_s005']
    """
    file = resources.files("sbmc_studies").joinpath(f"experiments/configs/{experiment}.toml")
    tables = tomllib.loads(file.read_text("utf-8")).get("tables", ())
    return tuple(
        Spec(each["paper"], each["title"], tuple(each.get("rules", ())), each.get("chain"))
        for each in tables
    )


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
    chosen = get_method(method)
    overrides: dict[str, Any] = {}
    if variance is not None:
        overrides["prior_variance"] = variance
    if s is not None and "s" not in chosen.fixed:
        overrides["s"] = s
    if islands is not None and "islands" not in chosen.fixed:
        overrides["islands"] = islands
    for rule in spec.rules:
        if rule["method"] == method and rule.get("s", s) == s:
            overrides |= rule["set"]
    anchored = f", s = {s:g}" if "s" in overrides else ""
    return Row(f"{chosen.label}{anchored}", method, "paper", overrides, section=spec.paper)


def chain_row(experiment: Experiment, spec: Spec) -> Row | None:
    """The study's row that is shown beside the paper's long chain, if the table names one."""
    return next((row for row in experiment.rows if row.label == spec.chain), None)
