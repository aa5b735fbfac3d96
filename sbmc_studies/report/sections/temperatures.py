"""SMC step by step, from the prior to the posterior: temperatures, ESS and acceptance."""

from __future__ import annotations

import math

from sbmc.report.charts import Curve, LineChart
from sbmc.report.charts.axis import Axis, nice_range
from sbmc.report.charts.style import series_style
from sbmc.report.figure import Figure
from sbmc.report.numbers import short
from sbmc_studies.report.collect import Setting
from sbmc_studies.report.islands import Islands, islands_of_runs
from sbmc_studies.report.study_view import StudyView

_COLUMNS = {
    "temperature": ("Temperatures", "temperature λ", "From the prior (0) to the posterior (1)"),
    "ess": ("Effective sample size at each temperature", "ESS, particles", "Before resampling"),
    "acceptance": ("Acceptance at each temperature", "acceptance", "Of the moves after resampling"),
}


def build_figures(view: StudyView, drawn: list[tuple[Setting, Islands]]) -> list[Figure]:
    """Three figures of the first setting that went through temperatures.

    Args:
        view: how much is shown.
        drawn: settings that were sampled, those of most interest first.

    Returns:
        The figures; none if there is no SMC among them.
    """
    ladders = [(setting, islands) for setting, islands in drawn if islands.temperature_counts]
    if not ladders:
        return []
    setting, _ = ladders[0]
    run = setting.runs[0]
    islands = islands_of_runs([run])
    figures = [_figure(view, setting, run.record.seed, islands, name) for name in _COLUMNS]
    return [figure for figure in figures if figure is not None]


def _figure(
    view: StudyView, setting: Setting, seed: int, islands: Islands, name: str
) -> Figure | None:
    paths = islands.paths(name)
    shown = paths[: view.limits.series]
    if not shown:
        return None
    title, label, caption = _COLUMNS[name]
    steps = min(max(map(len, shown)), view.limits.points)
    x = [float(step + 1) for step in range(steps)]
    curves = [
        Curve(series_style(i, f"island {i}"), x, [*path, *[math.nan] * steps][:steps])
        for i, path in enumerate(shown)
    ]
    values = [value for path in shown for value in path[:steps]]
    log = name == "temperature" and min(values) > 0
    low, high = nice_range(values, zero=not log, log=log)
    counts = [len(path) for path in shown]
    which = "" if len(paths) == len(shown) else f", the first {len(shown)} islands"
    return Figure(
        title,
        f"{caption}: {setting.label}, seed {seed}{which}.",
        LineChart(
            curves,
            Axis("step", 1.0, float(max(steps, 2))),
            Axis(label, low, high if name == "ess" else 1.0, log=log),
        ),
        alt=f"{title}: {min(counts)} to {max(counts)} temperatures; {label} from "
        f"{short(min(values))} to {short(max(values))}.",
    )
