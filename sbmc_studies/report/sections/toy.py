"""The toy study: densities for s and T, autocorrelations, and how long chains remember."""

from __future__ import annotations

from sbmc.report.charts.frame import Axis, nice_range
from sbmc.report.charts.lines import Curve, Guide, line_chart, spread_evenly
from sbmc.report.charts.looks import legend, make_looks
from sbmc.report.figure import curve_table, figure, grid
from sbmc.report.markup import Html, el, join
from sbmc.report.tables import number, plain_rows, table
from sbmc_studies.paper.toy import Toy, toy_verdicts
from sbmc_studies.report.toy_runs import read_toys
from sbmc_studies.report.view import Section, View

_TITLES = {"s": "Density of SBMC(s)", "T": "Density of the cold posterior"}
_WORDS = {
    "s": "The anchored target for each s; s = 1 is the posterior itself.",
    "T": "The posterior to the power 1/T; T = 1 is the posterior itself.",
}


def build(view: View) -> Section | None:
    """The figures of the first setting that has its curves; None if none has."""
    if view.study.name != "toy":
        return None
    for setting in view.study.settings:
        toys = read_toys(setting)
        if not toys:
            continue
        figures = [_density(view, toys[0], family) for family in ("s", "T")]
        figures += [_memory(view, toys[0], family) for family in ("s", "T")]
        verdicts = [
            el(
                "li",
                el(
                    "span", "✓ holds" if v.holds else "✗ fails", class_="good" if v.holds else "bad"
                ),
                f" {v.statement}: {v.evidence}",
            )
            for v in toy_verdicts(toys)
        ]
        parts = [
            el("p", f"Curves of seed {toys[0].record.seed}; numbers are means over {len(toys)}."),
            el("ul", *verdicts, class_="claims"),
            grid(*(each for each in figures if each is not None)),
            _table(toys),
        ]
        return Section("toy", "What s and T do to a target with two modes", join(parts))
    return None


def _density(view: View, toy: Toy, family: str) -> Html | None:
    cases = toy.cases(family)[: view.limits.series]
    if not cases:
        return None
    looks = make_looks([f"{family} = {case.value:g}" for case in cases])
    grid_ = toy.curves["theta"]
    kept = spread_evenly(len(grid_), view.limits.points)
    x = [float(f"{grid_[i]:.6g}") for i in kept]
    columns = [
        (look.label, [float(f"{toy.curves[f'density.{case.name}'][i]:.6g}") for i in kept])
        for look, case in zip(looks, cases, strict=True)
    ]
    _, high = nice_range([v for _, values in columns for v in values], zero=True)
    told = "; ".join(f"{label} has its highest density, {max(v):.2f}" for label, v in columns)
    return figure(
        _TITLES[family],
        _WORDS[family],
        line_chart(
            [Curve(look, x, values) for look, (_, values) in zip(looks, columns, strict=True)],
            Axis("θ", x[0], x[-1]),
            Axis("density", 0.0, high),
            alt=f"Densities with two modes. {told}.",
        ),
        curve_table(_TITLES[family], "θ", x, columns),
        legend=legend(looks),
    )


def _memory(view: View, toy: Toy, family: str) -> Html | None:
    cases = toy.cases(family)[: view.limits.series]
    if not cases:
        return None
    looks = make_looks([f"{family} = {case.value:g}" for case in cases])
    lags = min(len(toy.curves[f"acf.{case.name}"]) for case in cases)
    x = [float(i) for i in spread_evenly(lags, view.limits.points)]
    columns = [
        (look.label, [float(f"{toy.curves[f'acf.{case.name}'][int(i)]:.6g}") for i in x])
        for look, case in zip(looks, cases, strict=True)
    ]
    low, _ = nice_range([v for _, values in columns for v in values])
    iacts = [f"IACT {toy.record.metrics[f'iact.{case.name}']:.1f}" for case in cases]
    told = "; ".join(f"{look.label}: {words}" for look, words in zip(looks, iacts, strict=True))
    title = f"Autocorrelation of NUTS chains, by {family}"
    low = min(low, 0.0)
    return figure(
        title,
        "How much a draw still knows of the one so many draws before it. Lower is better.",
        line_chart(
            [Curve(look, x, values) for look, (_, values) in zip(looks, columns, strict=True)],
            Axis("lag, draws", 0.0, x[-1] or 1.0),
            Axis("autocorrelation of θ", low, 1.0),
            alt=f"Falling curves. Integrated autocorrelation times: {told}.",
            guides=[Guide((0.0, 0.0), (x[-1], 0.0))],
        ),
        curve_table(title, "lag", x, columns),
        legend=legend(looks, values=iacts),
    )


def _table(toys: list[Toy]) -> Html:
    rows = []
    for family, words in (("s", "SBMC"), ("T", "cold posterior")):
        for case in toys[0].cases(family):
            iact, error, epochs, lower = (
                _mean(toys, f"{name}.{case.name}")
                for name in ("iact", "iact_se", "epochs_per_draw", "lower_mode")
            )
            price = iact * epochs if iact is not None and epochs is not None else None
            cells = [number(each) for each in (iact, error, epochs, price, lower)]
            rows.append([f"{words}, {family} = {case.value:g}", *cells])
    headings = (
        *("Target", "IACT, draws", "standard error of one run", "epochs a draw"),
        *("epochs for one independent draw", "share of draws in the lower mode"),
    )
    return table("How long NUTS chains remember", headings, plain_rows(rows))


def _mean(toys: list[Toy], name: str) -> float | None:
    values = [toy.record.metrics.get(name) for toy in toys]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
