"""Ablations over s and P: accuracy on the left axis, epistemic entropy on the right."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sbmc.report.charts.frame import Axis, nice_range
from sbmc.report.charts.lines import Curve, line_chart
from sbmc.report.charts.looks import Look, legend, line_key
from sbmc.report.figure import figure, grid
from sbmc.report.markup import Html, el, join
from sbmc.report.numbers import percent, short
from sbmc.report.tables import Cell, number, plain_rows, table
from sbmc_studies.records.pooling import Pooled
from sbmc_studies.report.collect import Setting, Study
from sbmc_studies.report.labels import method_label, tell_apart
from sbmc_studies.report.view import Section, View, missing

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

    The method without its anchor is s = 1, and MAP, which has no island to speak of, is left out.

    Args:
        study: what was found.

    Returns:
        Families of two points or more, the largest first.
    """
    found: dict[str, dict[tuple[float, int], Setting]] = {}
    for setting in study.settings:
        settings = setting.record.settings
        s, islands = settings.get("s"), setting.islands
        sampled = any(isinstance(i, dict) and i.get("acceptance") for i in setting.record.islands)
        if not isinstance(s, int | float) or islands is None or not sampled:
            continue
        rest = {k: v for k, v in settings.items() if v is not None and k not in _FREE}
        method = setting.method.removeprefix("s-")
        name = json.dumps([method, rest], sort_keys=True, default=str)
        found.setdefault(name, {}).setdefault((float(s), islands), setting)
    groups = [members for members in found.values() if len(members) > 1]
    # Pairs that happen to be there say little where there are whole series.
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


def _named(made: list[Family], groups: Sequence[dict[tuple[float, int], Setting]]) -> list[Family]:
    """Tell families of the same methods apart by what else is set."""
    for title in dict.fromkeys(family.title for family in made):
        alike = [index for index, family in enumerate(made) if family.title == title]
        if len(alike) > 1:
            records = [next(iter(groups[index].values())).record for index in alike]
            for index, words in zip(alike, tell_apart(records, _FREE), strict=True):
                made[index] = Family(f"{title}, {words}" if words else title, made[index].points)
    return made


def build(view: View) -> Section | None:
    """Two figures for each family, or the commands that would give one."""
    title = "Ablations over s and P"
    found = families(view.study)
    if not found:
        if not any(setting.record.islands for setting in view.study.settings):
            return None
        if view.study.experiment is None:
            return None
        words = "No two runs here differ in s or P alone. For P = 1, 2, 4 of 8, and for another s:"
        command = f"sbmc run {view.study.name} --islands 8 --also-islands 1,2,4 --s 0.25"
        return Section("ablations", title, missing(words, command))
    intro = (
        "How far the prior reaches from the anchor (s), and how many independent islands there are "
        "(P). Whole lines: accuracy, left axis. Dotted lines of the same colour: epistemic entropy "
        "out of domain, right axis. At s = 0 all is the anchor, at s = 1 the full posterior."
    )
    shown = found[: min(_MOST_FAMILIES, view.limits.groups)]
    figures = [each for family in shown for each in _figures(family)]
    body = (
        el("p", intro),
        grid(*figures),
        view.omitted(len(shown), len(found), "series", "series"),
    )
    return Section("ablations", title, join(body))


def _figures(family: Family) -> list[Html]:
    scales = sorted({point.s for point in family.points})
    counts = sorted({point.islands for point in family.points})
    made = []
    if len(scales) > 1:
        curves = [
            (f"P = {p}", [(scales.index(q.s), q) for q in family.points if q.islands == p])
            for p in counts
        ]
        names = tuple(short(s) for s in scales)
        made.append(_figure(family, "s", "s, scale of the prior", names, curves))
    if len(counts) > 1:
        curves = [
            (f"s = {short(s)}", [(counts.index(q.islands), q) for q in family.points if q.s == s])
            for s in scales
        ]
        names = tuple(map(str, counts))
        made.append(_figure(family, "P", "P, number of islands", names, curves))
    return made


def _figure(
    family: Family,
    over: str,
    label: str,
    names: tuple[str, ...],
    curves: list[tuple[str, list[tuple[int, Point]]]],
) -> Html:
    outside = any(_OUTSIDE in point.pooled.values for point in family.points)
    entropy = _OUTSIDE if outside else _WRONG
    words = "H_ep OOD" if outside else "H_ep of mistakes"
    # The longest curves tell most; single points have no trend.
    kept = sorted(curves, key=lambda each: -len(each[1]))[:_MOST_CURVES]
    kept = [each for each in curves if each in kept and (len(each[1]) > 1 or len(curves) == 1)]
    kept = kept or curves[:_MOST_CURVES]
    drawn, rows, told, looks = [], [], [], []
    for number_, (name, points) in enumerate(kept):
        look = Look(number_, name)
        looks.append(look)
        x = [float(place) for place, _ in points]
        for metric, right in (("accuracy", False), (entropy, True)):
            y = [p.pooled.values.get(metric, float("nan")) for _, p in points]
            errors = [p.pooled.errors.get(metric, 0.0) for _, p in points]
            own = Look(number_, f"{words}, {name}") if right else Look(number_, f"accuracy, {name}")
            drawn.append(Curve(own, x, y, errors, marked=True, right=right))
        first, last = points[0][1], points[-1][1]
        told.append(
            f"{name}: accuracy from {percent(first.pooled.values.get('accuracy'))} at {over} = "
            f"{names[points[0][0]]} to {percent(last.pooled.values.get('accuracy'))} at "
            f"{names[points[-1][0]]}"
        )
        rows += [_row(point, entropy) for _, point in points]
    title = f"{family.title}: over {over}"
    at = tuple(float(i) for i in range(len(names)))
    below = Axis(label, -0.3, len(names) - 0.7, at=at, names=names)
    picture = line_chart(
        drawn,
        below,
        _axis("accuracy", drawn, right=False),
        right=_axis(f"{words}, nats", drawn, right=True),
        alt=f"Accuracy and epistemic entropy over {over}. {'; '.join(told)}.",
        shared=False,
    )
    more = [line_key("plain", "accuracy (left)"), line_key("plain", f"{words} (right)", "3 3")]
    headings = ("s", "P", "seeds", "accuracy %", "± %", words, "±", "NLL")
    return figure(
        title,
        "Accuracy and disagreement, each on its own axis; bars are standard errors over seeds.",
        picture,
        table(title, headings, plain_rows(rows)),
        legend=legend(looks, more),
    )


def _axis(label: str, curves: Sequence[Curve], right: bool) -> Axis:
    own = [curve for curve in curves if curve.right == right]
    ends = [
        value + sign * error
        for curve in own
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
