"""Ablations over s and P: accuracy on the left axis, epistemic entropy on the right."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from sbmc.report.charts import Curve, LineChart
from sbmc.report.charts.axis import Axis, nice_range
from sbmc.report.charts.style import series_style
from sbmc.report.figure import Figure, render_figures
from sbmc.report.markup import el, join
from sbmc.report.numbers import percent, short
from sbmc.report.page import Section
from sbmc.report.tables import Cell, Table, number
from sbmc_studies.experiments.methods import method_label
from sbmc_studies.records.pooling import Pooled
from sbmc_studies.report.collect import Setting, Study
from sbmc_studies.report.labels import differing_settings
from sbmc_studies.report.study_view import StudyView, lacking_section

_OUTSIDE, _WRONG = "entropy.epistemic.ood.all", "entropy.epistemic.incorrect"
# A step size goes with its s, so it may differ along a curve.
_FREE = ("s", "islands", "step_size", "first_island")
_MOST_CURVES, _MOST_FAMILIES = 4, 4


@dataclass(frozen=True)
class Point:
    """A setting of a family: its s, its P and its metrics."""

    s: float
    islands: int
    pooled: Pooled


@dataclass(frozen=True)
class Family:
    """Settings that differ in s and P alone.

    Attributes:
        title: the method, and how islands are combined if there is a choice.
        points: with different pairs of s and P.
    """

    title: str
    points: tuple[Point, ...]


def families(study: Study) -> list[Family]:
    """Find settings that differ in s and P alone.

    The method without its anchor is s = 1. MAP, which has no islands, is left out.

    Args:
        study: the records.

    Returns:
        Families of two points or more, the largest first.
    """
    by_settings: dict[str, dict[tuple[float, int], Setting]] = {}
    for setting in study.settings:
        settings = setting.record.settings
        s, islands = settings.get("s"), setting.islands
        sampled = any(isinstance(i, dict) and i.get("acceptance") for i in setting.record.islands)
        if not isinstance(s, int | float) or islands is None or not sampled:
            continue
        rest = {k: v for k, v in settings.items() if v is not None and k not in _FREE}
        method = setting.method.removeprefix("s-")
        name = json.dumps([method, rest], sort_keys=True, default=str)
        by_settings.setdefault(name, {}).setdefault((float(s), islands), setting)
    groups = [members for members in by_settings.values() if len(members) > 1]
    # A pair of settings says little beside a longer series.
    series = [members for members in groups if len(members) > 2]
    groups = sorted(series or groups, key=lambda members: -len(members))
    return _named([_family(members) for members in groups], groups)


def _family(members: dict[tuple[float, int], Setting]) -> Family:
    equal = any("equal.accuracy" in each.pooled.values for each in members.values())
    names = dict.fromkeys(method_label(each.method) for each in members.values())
    title = " and ".join(names) + (", islands with equal weights" if equal else "")
    points = [
        Point(s, p, each.pooled.weighted("equal") if equal else each.pooled)
        for (s, p), each in sorted(members.items(), key=lambda item: item[0])
    ]
    return Family(title, tuple(points))


def _named(named: list[Family], groups: Sequence[dict[tuple[float, int], Setting]]) -> list[Family]:
    """Tell families of the same methods apart by what else is set."""
    for title in dict.fromkeys(family.title for family in named):
        alike = [index for index, family in enumerate(named) if family.title == title]
        if len(alike) > 1:
            records = [next(iter(groups[index].values())).record for index in alike]
            for index, text in zip(alike, differing_settings(records, _FREE), strict=True):
                named[index] = Family(f"{title}, {text}" if text else title, named[index].points)
    return named


def build(view: StudyView) -> Section | None:
    """Two figures for each family, or the commands that would give one."""
    title = "Ablations over s and P"
    all_families = families(view.study)
    if not all_families:
        sampled = any(setting.record.islands for setting in view.study.settings)
        if not sampled or view.study.experiment is None:
            return None
        text = "No two runs here differ in s or P alone. For P = 1, 2, 4 of 8, and for another s:"
        command = f"sbmc run {view.study.name} --islands 8 --also-islands 1,2,4 --s 0.25"
        return lacking_section("ablations", title, text, command)
    intro = (
        "How far the prior reaches from the anchor (s), and how many independent islands there are "
        "(P). Whole lines: accuracy, left axis. Dotted lines of the same colour: epistemic entropy "
        "out of domain, right axis. At s = 0 all is the anchor, at s = 1 the full posterior."
    )
    shown = all_families[: min(_MOST_FAMILIES, view.limits.groups)]
    figures = [each for family in shown for each in _figures(family)]
    body = (
        el("p", intro),
        render_figures(*figures),
        view.omitted(len(shown), len(all_families), "series", "series"),
    )
    return Section("ablations", title, join(body))


def _figures(family: Family) -> list[Figure]:
    scales = sorted({point.s for point in family.points})
    counts = sorted({point.islands for point in family.points})
    figures = []
    if len(scales) > 1:
        curves = [
            (f"P = {p}", [(scales.index(q.s), q) for q in family.points if q.islands == p])
            for p in counts
        ]
        names = tuple(short(s) for s in scales)
        figures.append(_figure(family, "s", "s, scale of the prior", names, curves))
    if len(counts) > 1:
        curves = [
            (f"s = {short(s)}", [(counts.index(q.islands), q) for q in family.points if q.s == s])
            for s in scales
        ]
        names = tuple(map(str, counts))
        figures.append(_figure(family, "P", "P, number of islands", names, curves))
    return figures


def _figure(
    family: Family,
    over: str,
    label: str,
    names: tuple[str, ...],
    lines: list[tuple[str, list[tuple[int, Point]]]],
) -> Figure:
    has_ood = any(_OUTSIDE in point.pooled.values for point in family.points)
    entropy = _OUTSIDE if has_ood else _WRONG
    entropy_name = "H_ep OOD" if has_ood else "H_ep of mistakes"
    # The longest lines show most; single points have no trend.
    longest = sorted(lines, key=lambda each: -len(each[1]))[:_MOST_CURVES]
    shown = [each for each in lines if each in longest and (len(each[1]) > 1 or len(lines) == 1)]
    curves, rows, findings = [], [], []
    for index, (name, points) in enumerate(shown or lines[:_MOST_CURVES]):
        style = series_style(index, name)
        x = [float(position) for position, _ in points]
        for metric, right in (("accuracy", False), (entropy, True)):
            y = [point.pooled.values.get(metric, math.nan) for _, point in points]
            errors = [point.pooled.errors.get(metric, 0.0) for _, point in points]
            curves.append(Curve(style, x, y, errors, marked=True, right=right))
        (first, at_first), (last, at_last) = points[0], points[-1]
        findings.append(
            f"{name}: accuracy from {percent(at_first.pooled.values.get('accuracy'))} at {over} = "
            f"{names[first]} to {percent(at_last.pooled.values.get('accuracy'))} at {names[last]}"
        )
        rows += [_row(point, entropy) for _, point in points]
    positions = tuple(float(i) for i in range(len(names)))
    chart = LineChart(
        curves,
        Axis(label, -0.3, len(names) - 0.7, at=positions, names=names),
        _axis("accuracy", curves, right=False),
        right=_axis(f"{entropy_name}, nats", curves, right=True),
    )
    headings = ("s", "P", "seeds", "accuracy %", "± %", entropy_name, "±", "NLL")
    return Figure(
        f"{family.title}: over {over}",
        "Accuracy and disagreement, each on its own axis; bars are standard errors over seeds.",
        chart,
        alt=f"Accuracy and epistemic entropy over {over}. {'; '.join(findings)}.",
        data=Table(headings, rows),
    )


def _axis(label: str, curves: Sequence[Curve], right: bool) -> Axis:
    ends = [
        value + sign * error
        for curve in curves
        if curve.right == right
        for value, error in zip(curve.y, curve.errors or (), strict=True)
        for sign in (-1, 1)
    ]
    low, high = nice_range(ends)
    return Axis(label, max(0.0, low), high, percent=not right)


def _row(point: Point, entropy: str) -> list[object]:
    values, errors = point.pooled.values, point.pooled.errors
    accuracy, spread = values.get("accuracy"), errors.get("accuracy")
    return [
        Cell(short(point.s), point.s),
        Cell(point.islands, point.islands),
        Cell(len(point.pooled.records), len(point.pooled.records)),
        Cell("–" if accuracy is None else f"{100 * accuracy:.2f}", accuracy),
        Cell("–" if spread is None else f"{100 * spread:.2f}", spread),
        number(values.get(entropy)),
        number(errors.get(entropy)),
        number(values.get("nll")),
    ]
