"""What a budget buys: error, NLL and epistemic entropy against epochs per chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sbmc.report.charts import Curve, Guide, LineChart
from sbmc.report.charts.axis import Axis, nice_range
from sbmc.report.charts.style import Style, series_styles
from sbmc.report.figure import Figure
from sbmc.report.limits import Limits
from sbmc.report.numbers import short
from sbmc_studies.experiments.experiment import Experiment, Row
from sbmc_studies.paper.numbers import gold_standards
from sbmc_studies.records.finding import Runs
from sbmc_studies.records.pooling import Pooled


class Panel(NamedTuple):
    """A metric on its way into a figure, which shows offset + factor * metric."""

    metric: str
    title: str
    offset: float = 0.0
    factor: float = 1.0
    ticks: tuple[float, ...] = ()  # of a logarithmic axis

    def value(self, metric: float) -> float:
        """What the figure shows of a value of the metric."""
        return self.offset + self.factor * metric


# Chains that fail are ten times as bad as those that do not: a linear axis would show nothing else.
PANELS = (
    Panel("accuracy", "error (100 − accuracy), %", 100.0, -100.0, (5, 6, 8, 10, 20, 40)),
    Panel("nll", "NLL", ticks=(0.2, 0.25, 0.3, 0.5, 1, 2)),
    Panel("entropy.epistemic.incorrect", "H_ep of mistakes, nats"),
    Panel("entropy.epistemic.ood.all", "H_ep out of domain, nats"),
)
# Strokes of the paper's long chains.
DASHES = ("1 2", "3 2 1 2", "6 3")


@dataclass(frozen=True)
class Series:
    """One curve: a method at several budgets.

    Attributes:
        label: its name.
        epochs: the budgets that were asked for.
        points: the pooled records of each; budgets without records are left out.
    """

    label: str
    epochs: tuple[float, ...]
    points: tuple[Pooled, ...]

    def values(self, metric: str) -> list[float]:
        """Means of a metric, one per budget."""
        return [point.values[metric] for point in self.points]

    def errors(self, metric: str) -> list[float]:
        """Their standard errors."""
        return [point.errors[metric] for point in self.points]

    @property
    def legend(self) -> str:
        """The name, with the number of seeds behind its points."""
        counts = sorted({len(point.records) for point in self.points})
        seeds = "–".join(str(each) for each in (counts[0], counts[-1])[: len(counts)])
        return f"{self.label} ({seeds} {'seed' if counts[-1] == 1 else 'seeds'})"


def curve_row(curve: Mapping[str, Any], epochs: int) -> Row:
    """The table row of one point of a curve.

    Args:
        curve: `label`, `method`, `preset`, `islands`, and `vary`, which maps a setting to its
            multiple of the epochs.
        epochs: the budget.

    Returns:
        The row, as `find_records` takes it.
    """
    varied = {name: int(factor * epochs) for name, factor in curve["vary"].items()}
    overrides = {"islands": curve["islands"], **curve.get("set", {}), **varied}
    return Row(curve["label"], curve["method"], curve["preset"], overrides)


def find_series(experiment: Experiment, runs: Runs) -> list[Series]:
    """Find the curves that the experiment's file names.

    Args:
        experiment: whose curves.
        runs: where to look for their points.

    Returns:
        The curves that have at least one point.
    """
    series = []
    for curve in experiment.curves.get("epochs", ()):
        points = {epochs: runs.pooled(curve_row(curve, epochs)) for epochs in curve["epochs"]}
        known = {epochs: pooled for epochs, pooled in points.items() if pooled is not None}
        if known:
            series.append(Series(curve["label"], tuple(known), tuple(known.values())))
    return series


def build(experiment: str, series: Sequence[Series], limits: Limits) -> list[Figure]:
    """A figure for each of `PANELS`, with the paper's long chains as level lines.

    Args:
        experiment: the name of the experiment whose long chains are drawn.
        series: from `find_series`.
        limits: how many curves are shown.

    Returns:
        The figures whose metric the records have.
    """
    shown = series[: limits.series]
    styled = list(zip(series_styles([each.legend for each in shown]), shown, strict=True))
    figures = (_figure(experiment, panel, styled) for panel in PANELS)
    return [figure for figure in figures if figure is not None]


def _figure(experiment: str, panel: Panel, styled: Sequence[tuple[Style, Series]]) -> Figure | None:
    curves = []
    for style, each in styled:
        if all(panel.metric in point.values for point in each.points):
            values = [panel.value(value) for value in each.values(panel.metric)]
            errors = [abs(panel.factor) * error for error in each.errors(panel.metric)]
            curves.append(Curve(style, each.epochs, values, errors, marked=True))
    if not curves:
        return None
    budgets = tuple(sorted({epochs for _, each in styled for epochs in each.epochs}))
    ends = nice_range(budgets, log=True)
    guides = []
    for gold, dashes in zip(gold_standards(experiment), DASHES, strict=False):
        if panel.metric in gold.values:
            level = panel.value(gold.values[panel.metric])
            label = f"paper, one chain of {gold.epochs:,.0f} epochs"
            guides.append(Guide((ends[0], level), (ends[1], level), label, dashes))
    levels = [value for curve in curves for value in curve.y] + [g.start[1] for g in guides]
    log = bool(panel.ticks)
    low, high = nice_range(levels, log=log, zero=not log)
    findings = "; ".join(f"{c.style.label}: {short(c.y[0])} to {short(c.y[-1])}" for c in curves)
    return Figure(
        panel.title,
        "Bars are standard errors. Grey lines are the paper’s long chains."
        if guides
        else "Bars are standard errors.",
        LineChart(
            curves,
            Axis("epochs per chain", *ends, log=True, at=budgets),
            Axis(panel.title, low, high, log=log, at=panel.ticks or None),
            guides=guides,
        ),
        alt=f"{panel.title} over epochs per chain, from least to most: {findings}.",
    )
