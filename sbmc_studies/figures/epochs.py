"""Accuracy, NLL and epistemic entropy against epochs per chain, from records alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sbmc.checks import BadInput
from sbmc_studies.experiments.experiment import Experiment, Row
from sbmc_studies.figures.style import GREY, MARKERS, PALETTE, new_figure
from sbmc_studies.paper.numbers import gold_standards
from sbmc_studies.records.pooling import Pooled, find_records, pool

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Panel(NamedTuple):
    """What is drawn of a metric: value = offset + factor * metric."""

    metric: str
    title: str
    offset: float = 0.0
    factor: float = 1.0
    ticks: tuple[float, ...] = ()  # of a logarithmic axis

    def value(self, metric: float) -> float:
        """What is drawn."""
        return self.offset + self.factor * metric


# Chains that fail are ten times as bad as those that do not: a linear axis would show nothing else.
PANELS = (
    Panel("accuracy", "error (100 − accuracy), %", 100.0, -100.0, (5, 6, 8, 10, 20, 40)),
    Panel("nll", "NLL", ticks=(0.2, 0.25, 0.3, 0.5, 1, 2)),
    Panel("entropy.epistemic.incorrect", "H_ep of mistakes, nats"),
    Panel("entropy.epistemic.ood.all", "H_ep out of domain, nats"),
)
LINES = ((0, (1, 1)), (0, (3, 1, 1, 1)), (0, (5, 2)))


@dataclass(frozen=True)
class Series:
    """One curve: a method at several budgets.

    Attributes:
        label: its name.
        epochs: the budgets that were asked for.
        points: the pooled records of each; those that are missing are left out.
    """

    label: str
    epochs: tuple[float, ...]
    points: tuple[Pooled, ...]

    def values(self, metric: str) -> list[float]:
        """Means of a metric, one per budget."""
        return [point.values[metric] for point in self.points]

    @property
    def legend(self) -> str:
        """The name, with the number of seeds behind its points."""
        counts = sorted({len(point.records) for point in self.points})
        seeds = "–".join(str(count) for count in (counts[0], counts[-1])[: len(counts)])
        return f"{self.label} ({seeds} {'seed' if counts[-1] == 1 else 'seeds'})"

    def errors(self, metric: str) -> list[float]:
        """Their standard errors."""
        return [point.errors[metric] for point in self.points]


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


def read_series(experiment: Experiment, records: Path, figure: str = "epochs") -> list[Series]:
    """Read the curves of an experiment's figure.

    Args:
        experiment: whose figure.
        records: the folder of all records.
        figure: its name in the experiment's file.

    Returns:
        The curves that have a point at least.

    Raises:
        BadInput: if the experiment has no such figure, or there is no record for it.
    """
    curves: Sequence[Mapping[str, Any]] = experiment.curves.get(figure, ())
    if not curves:
        raise BadInput(f"`figure` must be one that {experiment.name} has, but got {figure!r}.")
    found = []
    for curve in curves:
        pooled = {}
        for epochs in curve["epochs"]:
            here = find_records(records, experiment, curve_row(curve, epochs))
            if here:
                pooled[epochs] = pool(here)
        if pooled:
            found.append(Series(curve["label"], tuple(pooled), tuple(pooled.values())))
    if not found:
        raise BadInput(
            f"`records` must hold runs of the figure {figure}, but got {str(records)!r}."
        )
    return found


def draw(experiment: Experiment, series: Sequence[Series]) -> Figure:
    """Draw the curves, with the paper's long chains as horizontal lines.

    Args:
        experiment: whose long chains are drawn.
        series: from `read_series`.

    Returns:
        A matplotlib figure.
    """
    figure = new_figure(11.0, 7.2)
    axes: Any = figure.subplots(2, 2, sharex=True)
    ticks = sorted({epochs for each in series for epochs in each.epochs})
    for axis, panel in zip(axes.flat, PANELS, strict=True):
        if panel.ticks:
            axis.set_yscale("log")
            axis.set_yticks(panel.ticks, [f"{tick:g}" for tick in panel.ticks])
        for each, colour, marker in zip(series, PALETTE, MARKERS, strict=False):
            axis.errorbar(
                each.epochs,
                [panel.value(value) for value in each.values(panel.metric)],
                [abs(panel.factor) * error for error in each.errors(panel.metric)],
                label=each.legend,
                color=colour,
                marker=marker,
                capsize=3,
            )
        for gold, dashes in zip(gold_standards(experiment.name), LINES, strict=False):
            if panel.metric in gold.values:
                label = f"paper, one chain of {gold.epochs:,.0f} epochs"
                height = panel.value(gold.values[panel.metric])
                axis.axhline(height, color=GREY, linestyle=dashes, linewidth=1.2, label=label)
        axis.set_title(panel.title, fontsize=12, loc="left")
        axis.set_xscale("log")
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
        axis.grid(axis="y", color="#dddddd", linewidth=0.6)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    for axis in axes[1]:
        axis.set_xlabel("epochs per chain")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def draw_file(experiment: Experiment, records: Path, target: Path) -> Path:
    """Draw the figure from the records into a PNG file.

    Args:
        experiment: whose figure.
        records: the folder of all records.
        target: the picture's path.

    Returns:
        The picture's path.
    """
    figure = draw(experiment, read_series(experiment, records))
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=110)
    return target
