"""A page about any posterior: health, how good it is, what it is sure about, what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sbmc.prediction.prediction import Prediction
from sbmc.report.figure import render_figures
from sbmc.report.limits import Limits
from sbmc.report.markup import Html, cut, el, join
from sbmc.report.measures import measures_of, show
from sbmc.report.next_steps import next_steps
from sbmc.report.numbers import count, percent, seconds, short
from sbmc.report.page import Part, Section, fit_page, render_page, write_page
from sbmc.report.posterior_examples import examples
from sbmc.report.posterior_figures import reliability, risk_and_coverage, uncertainty
from sbmc.report.posterior_view import PosteriorView
from sbmc.report.tables import Cell, facts, plain_rows, table

# Characters of a setting.
MOST_TEXT = 200


def write_posterior_page(
    view: PosteriorView, path: Path, *, command: str, title: str | None = None
) -> int:
    """Write the page of a posterior, whole or not at all.

    Args:
        view: of the posterior, from `view_posterior`.
        path: the HTML file.
        command: which command makes the page, for its last line.
        title: of the page; made from the files' names if not given.

    Returns:
        The size of the page in bytes.
    """
    page = render_posterior_page(view, command=command, title=title)
    write_page(page, path)
    return len(page.encode("utf-8"))


def render_posterior_page(view: PosteriorView, *, command: str, title: str | None = None) -> str:
    """The page as text: one file that fetches nothing, the same bytes for the same content.

    Args:
        view: of the posterior.
        command: which command makes the page.
        title: of the page.

    Returns:
        The page.
    """
    heading = cut(title or f"{view.name} on {view.rows.source}", 120)

    def build(limits: Limits) -> str:
        return render_page(
            heading,
            _lead(view),
            [_part(view, limits)],
            command=command,
            made_from="the posterior and the data",
        )

    return fit_page(build)


def _part(view: PosteriorView, limits: Limits) -> Part:
    sections = [Section("health", "Health", _health(view))]
    if view.metrics:
        sections.append(Section("measures", "How good its answers are", _measures(view)))
    sections += [
        Section("figures", "How far it can be trusted", _figures(view, limits)),
        Section("rows", "What it is most and least sure about", examples(view, limits)),
        Section("settings", "What it is made of", _settings(view, limits)),
        Section("next", "What to do next", _next(view)),
    ]
    return Part("posterior", "The answer", el("p", _answer(view), class_="answer"), sections)


def _lead(view: PosteriorView) -> str:
    islands, particles, dim = view.posterior.positions.shape
    asked = count(len(view.rows), "row") if view.rows.named_by == "row" else None
    asked = asked or count(len(view.rows), "picture")
    return f"{count(islands * particles, 'particle')} of {dim:,} weights, asked about {asked}"


def _answer(view: PosteriorView) -> str:
    metrics = view.metrics
    health = f"The health of the posterior is {view.posterior.health.word}."
    if not metrics:
        return f"It has answered {count(len(view.rows), 'row')}. {health}"
    if isinstance(view.prediction, Prediction):
        quality = f"{percent(metrics['accuracy'])} of its labels are right"
    else:
        quality = f"It is {short(metrics['rmse'])} off (RMSE)"
        if "coverage" in metrics:
            quality += (
                f", and {percent(metrics['coverage'])} of the targets are in its "
                f"{view.level:.0%} intervals"
            )
    sentence = f"{quality}. "
    better = metrics.get("accuracy.answered", metrics.get("rmse.answered"))
    if "answered" in metrics and metrics["answered"] < 1 and better is not None:
        shown = percent(better) if isinstance(view.prediction, Prediction) else short(better)
        what = "are right" if isinstance(view.prediction, Prediction) else "is the RMSE"
        sentence += (
            f"It abstains from {percent(1 - metrics['answered'])} of the rows; of the others "
            f"{shown} {what}. "
        )
    return sentence + health


def _health(view: PosteriorView) -> Html:
    health = view.posterior.health
    parts = [el("p", "The sampler reached its target." if health.ok else str(health))]
    figures: Mapping[str, Any] = health.figures
    if figures:
        moved, accepted = figures["displacement"], figures["acceptance"]
        pairs = [
            ("particles", f"{figures['particles']:,}"),
            ("moved, in posterior standard deviations", _extent(moved)),
            ("acceptance", _extent(accepted) if accepted else "nothing is rejected"),
            ("moves after warm-up", figures["moves"]),
            ("largest settling figure", short(figures["settling"])),
        ]
        parts.append(facts(pairs))
    elif health.ok:
        parts = [el("p", "Nothing was sampled: these are networks as they were trained.")]
    return join(parts)


def _extent(figures: Mapping[str, float]) -> str:
    return f"{short(figures['least'])} at least, median {short(figures['median'])}"


def _measures(view: PosteriorView) -> Html:
    known = measures_of(view.prediction)
    rows = [
        [each.label, Cell(show(name, view.metrics[name], known), view.metrics[name]), each.meaning]
        for name, each in known.items()
        if name in view.metrics
    ]
    rule = el("p", f"It abstains where {view.doubt.rule}.", class_="note")
    caption = f"Measures on {count(len(view.rows), 'row')}"
    return join([table(caption, ("Measure", "value", "meaning"), plain_rows(rows)), rule])


def _figures(view: PosteriorView, limits: Limits) -> Html:
    figures = reliability(view), risk_and_coverage(view, limits), uncertainty(view)
    note = None
    if view.rows.targets is None:
        text = "Reliability and risk need targets, which these rows do not have."
        note = el("p", text, class_="missing")
    return join([note, render_figures(*figures)])


def _settings(view: PosteriorView, limits: Limits) -> Html:
    posterior, parts = view.posterior, []
    mixture = posterior.mixture
    if mixture is not None:
        rows = [
            [m.name, Cell(short(m.weight), m.weight), Cell(short(m.log_score), m.log_score)]
            for m in mixture.members
        ]
        text = f"Weights by stacking on {count(mixture.rows, 'unseen row')} ({mixture.source})."
        headings = ("Member", "weight", "log score")
        parts += [el("p", text), table("What is mixed", headings, plain_rows(rows))]
    cost = posterior.cost
    took = "not measured" if cost.wall_seconds is None else seconds(cost.wall_seconds)
    parts.append(
        facts(
            [
                ("time of sampling", took),
                ("epochs of each particle", short(cost.epochs)),
                ("epochs in all, training included", short(cost.total_epochs)),
                ("likelihood", cut(posterior.likelihood, MOST_TEXT)),
            ]
        )
    )
    # What identifies a run or was said above is no setting that a reader looks for.
    hidden = ("probe", "identity", "mixture")
    names = [name for name in posterior.settings if name not in hidden][: limits.keys]
    rows = [[name, cut(posterior.settings[name], MOST_TEXT)] for name in names]
    settings = table("All settings", ("Setting", "value"), plain_rows(rows))
    parts.append(el("details", el("summary", "All settings"), settings))
    return join(parts)


def _next(view: PosteriorView) -> Html:
    command = f"sbmc predict {view.name} --data NEW --out answers.csv"
    steps = [el("li", each) for each in next_steps(view)]
    last = el("li", "Ask it about new rows: ", el("code", command))
    return el("ul", *steps, last)
