"""Entropy by group of inputs and by class: aleatoric, epistemic, and the paper's total."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sbmc.report.charts import Bar, BarChart
from sbmc.report.charts.style import Style
from sbmc.report.figure import Figure
from sbmc.report.limits import Limits
from sbmc.report.markup import cut
from sbmc_studies.data.class_names import class_name
from sbmc_studies.figures.comparison import PAPER, Comparison, MethodResult
from sbmc_studies.paper.numbers import read_table

TABLE = "mnist7_entropy_per_digit"
PARTS = ("aleatoric (the data are ambiguous)", "epistemic (the ensemble disagrees)")
MARK = "the paper’s total"
_GROUPS = {
    "correct": "test set, right",
    "incorrect": "test set, wrong",
    "white_noise": "white noise",
}
# Our names of groups, by the paper's.
_OURS = {"wn": "white_noise", "per": "perturbed"}


class GroupEntropies(NamedTuple):
    """The entropies of one method, as its records have them.

    Attributes:
        style: its label and what it looks like.
        metrics: with `entropy.aleatoric.GROUP` and `entropy.epistemic.GROUP`.
        totals: the paper's total entropy of a group or class, where it has one.
    """

    style: Style
    metrics: Mapping[str, float]
    totals: Mapping[str, float]


def group_names(metrics: Mapping[str, float]) -> list[str]:
    """The groups that there are entropies of, such as `correct` and `ood.8`."""
    start = "entropy.epistemic."
    names = [name.removeprefix(start) for name in metrics if name.startswith(start)]
    return [name for name in names if name not in ("id", "ood.all")]


def group_title(name: str) -> str:
    """A group in words.

    Examples:
        >>> group_title("correct"), group_title("ood.white_noise")
        ('test set, right', 'out of domain: white noise')
    """
    group = name.removeprefix("ood.")
    title = _GROUPS.get(group, cut(group.replace("_", " "), 40))
    return f"out of domain: {title}" if name.startswith("ood.") else title


def paper_totals(experiment: str, method: str, islands: int | None) -> dict[str, float]:
    """The total entropies that the paper prints of a method, by group or class."""
    if experiment != "mnist7":
        return {}
    printed_islands = "" if method == "map" else str(islands)
    return {
        _OURS.get(row["group"], row["group"]): float(row["h_tot"])
        for row in read_table(TABLE)
        if row["method"] == method and row["islands"] == printed_islands
    }


def build(comparison: Comparison, limits: Limits) -> list[Figure]:
    """The entropies by group, and by the true class of in-domain inputs."""
    rows = [
        GroupEntropies(row.style, row.pooled.values, _totals(comparison, row))
        for row in comparison.rows
    ]
    figures = (group_figure(rows, limits), class_figure(comparison, limits))
    return [figure for figure in figures if figure is not None]


def group_figure(rows: Sequence[GroupEntropies], limits: Limits) -> Figure | None:
    """Entropies of each group; None if there are none.

    Args:
        rows: the methods.
        limits: how many groups are shown.
    """
    names = list(dict.fromkeys(name for row in rows for name in group_names(row.metrics)))
    groups = []
    for name in names[: limits.groups]:
        bars = []
        for style, metrics, totals in rows:
            pale, full = (metrics.get(f"entropy.{k}.{name}") for k in ("aleatoric", "epistemic"))
            if pale is not None and full is not None:
                bars.append(Bar(style, pale, full, totals.get(name.removeprefix("ood."))))
        groups.append((group_title(name), bars))
    caption = f"Mean entropy of predictions in nats, for {len(groups)} groups of inputs."
    return _figure("Entropy by group", caption, groups)


def class_figure(comparison: Comparison, limits: Limits) -> Figure | None:
    """Entropies of the test inputs of each true class; None if there are none."""
    known = comparison.rows[0].arrays[0]
    if not all(f"entropy.classes.{kind}" in known for kind in ("aleatoric", "epistemic")):
        return None
    classes = [str(name) for name in known["entropy.classes"]]
    titles = [
        class_name(comparison.experiment, name) or f"class {cut(name, 40)}" for name in classes
    ]
    groups: list[tuple[str, list[Bar]]] = [(title, []) for title in titles[: limits.groups]]
    for row in comparison.rows:
        # Runs on other data may have other classes, which cannot be compared with these.
        if [str(name) for name in row.arrays[0]["entropy.classes"]] != classes:
            continue
        pale, full = (row.mean(f"entropy.classes.{k}").tolist() for k in ("aleatoric", "epistemic"))
        totals = _totals(comparison, row)
        for index, (_, bars) in enumerate(groups):
            if math.isfinite(pale[index]) and math.isfinite(full[index]):
                total = totals.get(classes[index])
                bars.append(Bar(row.style, pale[index], full[index], total))
    caption = "The test inputs of each class, in the sets of the meta-classifier."
    return _figure("Entropy of test inputs by true class", caption, groups)


def _totals(comparison: Comparison, row: MethodResult) -> dict[str, float]:
    """The paper's totals of its own rows, in its own protocol."""
    if not row.in_paper or comparison.protocol != PAPER:
        return {}
    return paper_totals(comparison.experiment, row.method, row.islands)


def _figure(title: str, caption: str, groups: Sequence[tuple[str, Sequence[Bar]]]) -> Figure | None:
    groups = [(name, bars) for name, bars in groups if bars]
    if not groups:
        return None
    findings = []
    for name, bars in groups:
        most = max(bars, key=lambda bar: bar.full)
        findings.append(f"{name}: most epistemic entropy {most.full:.2f} ({most.style.label})")
    return Figure(
        title,
        caption,
        BarChart(groups, "entropy, nats", PARTS, MARK),
        alt=cut(f"Bars of entropy for each group and setting. {'; '.join(findings)}.", 900),
    )
