"""SMC on its way from prior to posterior: temperatures, ESS and acceptance, step by step."""

from __future__ import annotations

import math

from sbmc.report.charts.frame import Axis, nice_range
from sbmc.report.charts.lines import Curve, line_chart
from sbmc.report.charts.looks import legend, make_looks
from sbmc.report.figure import curve_table, figure
from sbmc.report.markup import Html
from sbmc.report.numbers import short
from sbmc_studies.report.collect import Setting
from sbmc_studies.report.islands import Islands, of_runs
from sbmc_studies.report.view import View

_COLUMNS = {
    "temperature": ("Temperatures", "temperature λ", "From the prior (0) to the posterior (1)"),
    "ess": ("Effective sample size at each temperature", "ESS, particles", "Before resampling"),
    "acceptance": ("Acceptance at each temperature", "acceptance", "Of the moves after resampling"),
}


def build_figures(view: View, drawn: list[tuple[Setting, Islands]]) -> list[Html]:
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
    own = of_runs([run])
    made = [_figure(view, setting, run.record.seed, own, name) for name in _COLUMNS]
    return [each for each in made if each is not None]


def _figure(view: View, setting: Setting, seed: int, own: Islands, name: str) -> Html | None:
    paths = own.paths(name)[: view.limits.series]
    if not paths:
        return None
    title, label, words = _COLUMNS[name]
    steps = min(max(map(len, paths)), view.limits.points)
    x = [float(i + 1) for i in range(steps)]
    columns = [
        (f"island {i}", [path[k] if k < len(path) else math.nan for k in range(steps)])
        for i, path in enumerate(paths)
    ]
    looks = make_looks([each for each, _ in columns])
    values = [v for path in paths for v in path[:steps]]
    log = name == "temperature" and min(values) > 0
    low, high = nice_range(values, zero=not log, log=log)
    if name != "ess":
        high = 1.0
    counts = [len(path) for path in paths]
    told = f"{min(counts)} to {max(counts)} temperatures; {label} from {short(min(values))} to "
    whole = "" if len(own.paths(name)) == len(paths) else f", the first {len(paths)} islands"
    return figure(
        title,
        f"{words}: {setting.label}, seed {seed}{whole}.",
        line_chart(
            [Curve(look, x, y) for look, (_, y) in zip(looks, columns, strict=True)],
            Axis("step", 1.0, float(max(steps, 2))),
            Axis(label, low, high, log=log),
            alt=f"{title}: {told}{short(max(values))}.",
        ),
        curve_table(title, "step", x, columns),
        legend=legend(looks),
    )
