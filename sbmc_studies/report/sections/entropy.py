"""Entropy by group: what the ensemble is unsure about, and in which way."""

from __future__ import annotations

import math

from sbmc.report.charts.bars import Bar, bar_chart
from sbmc.report.charts.frame import Axis, nice_range
from sbmc.report.charts.looks import Look, key, legend, line_key
from sbmc.report.figure import figure, grid
from sbmc.report.markup import Html, cut, el, join
from sbmc.report.tables import Cell, number, plain_rows, table
from sbmc_studies.figures.entropies import paper_totals
from sbmc_studies.figures.measured import Measurements
from sbmc_studies.report.collect import Setting
from sbmc_studies.report.labels import class_name
from sbmc_studies.report.view import Section, View

_WORDS = {
    "correct": "test set, right",
    "incorrect": "test set, wrong",
    "white_noise": "white noise",
    "perturbed": "perturbed",
}
_PALE = "pale: aleatoric (the data are ambiguous)"
_FULL = "full: epistemic (the ensemble disagrees)"
_HEADINGS = ("Group", "Setting", "aleatoric", "epistemic", "total")


def groups_of(setting: Setting) -> list[str]:
    """The groups that a setting has entropies of, such as `correct` and `ood.8`."""
    start = "entropy.epistemic."
    names = [name.removeprefix(start) for name in setting.pooled.values if name.startswith(start)]
    return [name for name in names if name not in ("id", "ood.all")]


def group_title(name: str) -> str:
    """Words for a group."""
    own = name.removeprefix("ood.")
    words = _WORDS.get(own, cut(own.replace("_", " "), 40))
    return f"out of domain: {words}" if name.startswith("ood.") else words


def build(view: View) -> Section | None:
    """The section; None if no run has entropies."""
    drawn = [(setting, look) for setting, look in view.drawn if groups_of(setting)]
    if not drawn:
        return None
    body = [
        el(
            "p",
            "Total entropy splits in two: what is left when all members agree that the input is "
            "ambiguous (aleatoric), and how much the members disagree (epistemic). A good ensemble "
            "disagrees on its mistakes and on inputs unlike its training data, and nowhere else.",
        ),
        grid(_by_group(view, drawn), _by_class(view)),
        view.omitted(len(drawn), len(view.study.settings)),
    ]
    return Section("entropy", "Entropy by group", join(body))


def _by_group(view: View, drawn: list[tuple[Setting, Look]]) -> Html:
    names = list(dict.fromkeys(name for setting, _ in drawn for name in groups_of(setting)))
    names = names[: view.limits.groups]
    blocks, rows = [], []
    for name in names:
        bars = []
        for setting, look in drawn:
            pale, full, total = (
                setting.value(f"entropy.{kind}.{name}")
                for kind in ("aleatoric", "epistemic", "total")
            )
            if pale is None or full is None:
                continue
            words = f"{look.label}, {group_title(name)}: aleatoric {pale:.3f}, epistemic {full:.3f}"
            bars.append(Bar(look, pale, full, words))
            rows.append([group_title(name), look.label, number(pale), number(full), number(total)])
        blocks.append((group_title(name), bars))
    title = "Entropy by group"
    return figure(
        title,
        f"Mean entropy of predictions in nats, for {len(names)} groups of inputs.",
        _bars(blocks, _alt(blocks)),
        table(f"{title}, in nats", _HEADINGS, plain_rows(rows)),
        legend=legend([look for _, look in drawn], [key("any pale", _PALE), key("any", _FULL)]),
    )


def _by_class(view: View) -> Html | None:
    if view.measured is None:
        return None
    measurements, looks = view.measured
    known = measurements.rows[0].arrays[0]
    if not all(f"entropy.classes.{kind}" in known for kind in ("aleatoric", "epistemic")):
        return None
    classes = [str(name) for name in known["entropy.classes"]]
    kept = classes[: view.limits.groups]
    blocks, rows, marked = _class_blocks(measurements, looks, kept, classes)
    if not blocks:
        return None
    title = "Entropy of test inputs by true class"
    more = [key("any pale", "pale: aleatoric"), key("any", "full: epistemic")]
    if marked:
        more.append(line_key("told", "upright line: the paper’s total"))
    return figure(
        title,
        "The same for the test inputs of each class alone, in the sets of the meta-classifier.",
        _bars(blocks, _alt(blocks)),
        table(f"{title}, in nats", (*_HEADINGS, "the paper’s total"), plain_rows(rows)),
        legend=legend(looks, more),
    )


def _class_blocks(
    measurements: Measurements, looks: list[Look], kept: list[str], classes: list[str]
) -> tuple[list[tuple[str, list[Bar]]], list[list[object]], bool]:
    blocks: list[tuple[str, list[Bar]]] = [
        (class_name(measurements.experiment, name) or f"class {cut(name, 40)}", []) for name in kept
    ]
    rows: list[list[object]] = []
    marked = False
    for row, look in zip(measurements.rows, looks, strict=True):
        # Runs on other data may have other classes: what cannot be compared is left out.
        if [str(name) for name in row.arrays[0]["entropy.classes"]] != classes:
            continue
        below, above = (row.mean(f"entropy.classes.{k}") for k in ("aleatoric", "epistemic"))
        told = paper_totals(measurements, row, kept)
        for index, (title, bars) in enumerate(blocks):
            pale, full = float(below[index]), float(above[index])
            if not (math.isfinite(pale) and math.isfinite(full)):
                continue
            paper = told[index] if math.isfinite(told[index]) else None
            marked = marked or paper is not None
            words = f"{look.label}, {title}: aleatoric {pale:.3f}, epistemic {full:.3f}"
            bars.append(Bar(look, pale, full, words, paper))
            cells = [number(each) for each in (pale, full, pale + full, paper)]
            rows.append([Cell(title, title), look.label, *cells])
    return [block for block in blocks if block[1]], rows, marked


def _bars(blocks: list[tuple[str, list[Bar]]], alt: str) -> Html:
    ends = [max(b.pale + b.full, b.mark or 0.0) for _, bars in blocks for b in bars]
    _, high = nice_range(ends, zero=True)
    return bar_chart(blocks, Axis("entropy, nats", 0.0, high), alt=alt)


def _alt(blocks: list[tuple[str, list[Bar]]]) -> str:
    parts = []
    for title, bars in blocks:
        if bars:
            most = max(bars, key=lambda bar: bar.full)
            parts.append(f"{title}: most epistemic entropy {most.full:.2f} ({most.look.label})")
    return cut(f"Bars of entropy for each group and setting. {'; '.join(parts)}.", 900)
