"""Diagnostics of the samplers: acceptance, temperatures, evidence, ESS and nested R-hat."""

from __future__ import annotations

from sbmc.report.charts import Dot, DotChart
from sbmc.report.charts.axis import Axis, nice_range
from sbmc.report.figure import Figure, render_figures
from sbmc.report.markup import Html, el, join
from sbmc.report.numbers import MISSING, short
from sbmc.report.page import Section
from sbmc.report.tables import Cell, Table, number, plain_rows, table
from sbmc_studies.records.health import health_of, pooled_verdict
from sbmc_studies.report.collect import Setting
from sbmc_studies.report.islands import Islands, islands_of_setting
from sbmc_studies.report.sections.temperatures import build_figures
from sbmc_studies.report.study_view import StudyView, missing

_TITLE = "Diagnostics of the sampler"


def build(view: StudyView) -> Section | None:
    """The section; None if nothing here was sampled."""
    chosen = [(setting, islands_of_setting(setting)) for setting in view.study.settings]
    sampled = [(setting, islands) for setting, islands in chosen if islands.sampled]
    if not sampled:
        return None
    # The settings of the other figures come first. They may all be baselines, so others follow.
    preferred = {id(setting) for setting, _ in view.drawn}
    ranked = sorted(sampled, key=lambda each: id(each[0]) not in preferred)
    drawn = ranked[: view.limits.series]
    weighed = [each for each in ranked if each[1].log_evidence][: view.limits.series]
    parts = [
        el(
            "p",
            "Whether the chains did their work. Acceptance near 0 or step sizes near 0 mean chains "
            "that stand still; islands whose evidence differs by more than a few nats are weighted "
            "down to almost nothing; nested R-hat well above what independent draws would give "
            "means islands that disagree.",
        ),
        _table(view, sampled),
        _verdicts(view, sampled),
        render_figures(
            _acceptance(view, drawn), _evidence(view, weighed), *build_figures(view, ranked)
        ),
        _convergence(view, sampled),
    ]
    return Section("diagnostics", _TITLE, join(parts))


def _table(view: StudyView, sampled: list[tuple[Setting, Islands]]) -> Html:
    rows = []
    for setting, islands in sampled[: view.limits.rows]:
        evidence = islands.log_evidence
        rows.append(
            [
                setting.label,
                Cell(f"{islands.completed}/{islands.total}", islands.completed),
                _extent(islands.acceptance),
                _extent(islands.step_size),
                _extent([float(n) for n in islands.temperature_counts]),
                _extent(islands.last_ess),
                _extent(evidence),
                number(setting.value("island_ess")),
                number(float(islands.collapsed) if islands.temperature_counts else None),
                pooled_verdict([run.record for run in setting.runs]),
            ]
        )
    headings = (
        *("Setting", "islands completed", "acceptance", "step size", "temperatures"),
        *("ESS at the last one", "log evidence", "effective islands", "collapsed", "health"),
    )
    caption = "Islands of each setting, all seeds: least, mean and most"
    islands_table = table(caption, headings, plain_rows(rows), class_="results")
    return join((islands_table, view.omitted(len(rows), len(sampled))))


def _verdicts(view: StudyView, sampled: list[tuple[Setting, Islands]]) -> Html | None:
    """For every run that is not healthy: why, and what to try."""
    verdicts = [
        el("li", f"{setting.label}, seed {run.record.seed}: {health_of(run.record)}")
        for setting, _ in sampled
        for run in setting.runs
        if health_of(run.record).ok is False
    ]
    if not verdicts:
        return None
    shown = verdicts[: view.limits.rows]
    heading = el("p", "Runs whose sampler did not do its work, and what to try:")
    return join((heading, el("ul", join(shown)), view.omitted(len(shown), len(verdicts), "run")))


def _extent(values: list[float]) -> Cell:
    if not values:
        return Cell(MISSING)
    mean = sum(values) / len(values)
    low, high = short(min(values)), short(max(values))
    text = short(mean) if low == high else f"{low} · {short(mean)} · {high}"
    return Cell(text, mean)


def _acceptance(view: StudyView, drawn: list[tuple[Setting, Islands]]) -> Figure | None:
    rows = _dots(view, drawn, "acceptance")
    if not rows:
        return None
    means = [f"{name} {sum(d.value for d in dots) / len(dots):.2f}" for name, dots in rows]
    bands = {tuple(s.record.settings.get("acceptance_band") or ()) for s, _ in drawn}
    band = bands.pop() if len(bands) == 1 else ()
    interval = (float(band[0]), float(band[1])) if len(band) == 2 and _are_numbers(band) else None
    caption = "A dot for each island of each seed"
    caption += "; shaded: where the step size is adapted to." if interval else "."
    return Figure(
        "Acceptance of each island",
        caption,
        DotChart(rows, Axis("acceptance"), interval),
        alt=f"Mean acceptance: {'; '.join(means)}.",
    )


def _evidence(view: StudyView, drawn: list[tuple[Setting, Islands]]) -> Figure | None:
    rows = [(name, dots) for name, dots in _dots(view, drawn, "log_evidence") if len(dots) > 1]
    if not rows:
        return None
    relative = []
    for name, dots in rows:
        best = max(dot.value for dot in dots)
        relative.append((name, [Dot(dot.label, dot.value - best) for dot in dots]))
    low, _ = nice_range([dot.value for _, dots in relative for dot in dots])
    widths = [f"{name} {-min(d.value for d in dots):.1f} nats" for name, dots in relative]
    exact = [[name, dot.label, number(dot.value, 5)] for name, dots in rows for dot in dots]
    return Figure(
        "Evidence of each island",
        "Log evidence below the best island of the setting, in nats. An island that is 5 nats "
        "below has a weight of less than a hundredth of the best, when islands count by evidence.",
        DotChart(relative, Axis("log evidence, relative to the best", low, -low * 0.04)),
        alt=f"From the best island to the worst: {'; '.join(widths)}.",
        data=Table(("Setting", "seed and island", "log evidence"), exact),
    )


def _dots(
    view: StudyView, drawn: list[tuple[Setting, Islands]], name: str
) -> list[tuple[str, list[Dot]]]:
    """A dot for each island of each setting that has this number."""
    rows = [
        (setting.label, [Dot(*each) for each in islands.by_island(name, view.limits.islands)])
        for setting, islands in drawn
    ]
    return [(label, dots) for label, dots in rows if dots]


def _convergence(view: StudyView, sampled: list[tuple[Setting, Islands]]) -> Html:
    rows = []
    for setting, islands in sampled:
        for each in islands.summaries:
            rows.append(
                [
                    setting.label,
                    each.name,
                    number(each.nested_rhat, 4),
                    number(each.expected, 4),
                    number(each.rhat, 4),
                    number(each.ess),
                    number(each.iact),
                ]
            )
    if not rows:
        text = (
            "Nested R-hat, and ESS of chains with several draws, are not in these records, which "
            "are of single islands or of an earlier version. They come with"
        )
        return missing(text, f"sbmc run {view.study.name} --islands 8 --force")
    headings = (
        *("Setting", "of what", "nested R-hat, worst", "of independent draws"),
        *("R-hat, worst", "ESS, least", "IACT, longest"),
    )
    shown = rows[: view.limits.rows]
    summaries = table("Nested R-hat, R-hat and ESS (first seed)", headings, plain_rows(shown))
    return join((summaries, view.omitted(len(shown), len(rows), "line")))


def _are_numbers(band: tuple) -> bool:
    return all(isinstance(end, int | float) for end in band)
