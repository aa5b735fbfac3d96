"""What the sections of one study share: which settings are drawn, in which style, and how many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from sbmc.report.charts.style import Style, series_style
from sbmc.report.limits import Limits
from sbmc.report.markup import Html, el
from sbmc.report.numbers import count
from sbmc.report.page import Section
from sbmc_studies.figures.comparison import PAPER, Comparison, MethodResult
from sbmc_studies.records.pooling import pool
from sbmc_studies.report.collect import Setting, StoredRun, Study
from sbmc_studies.runs.confidence import has_confidence, read_arrays


@dataclass(frozen=True, eq=False)
class StudyView:
    """A study, and how much of it a page shows.

    Attributes:
        study: its records.
        limits: how much of it is shown.
        number: of the study on the page, from 1.
        data_dir: where data sets are looked for first, for pictures and texts.
    """

    study: Study
    limits: Limits = field(default_factory=Limits)
    number: int = 1
    data_dir: Path | None = None

    @property
    def anchor(self) -> str:
        """The name of the study's part of the page, for links."""
        return f"e{self.number}"

    @cached_property
    def drawn(self) -> list[tuple[Setting, Style]]:
        """The settings that figures show, with the style that they have in all of them."""
        best = best_setting(self.study.settings)
        ranked = sorted(
            enumerate(self.study.settings),
            key=lambda each: (each[1] is not best, -_interest(each[1]), each[0]),
        )
        chosen = sorted(index for index, _ in ranked[: self.limits.series])
        settings = [self.study.settings[index] for index in chosen]
        return [(setting, series_style(i, setting.label)) for i, setting in enumerate(settings)]

    @cached_property
    def comparison(self) -> Comparison | None:
        """What the meta-classifier left behind for the drawn settings; None if for none."""
        rows = []
        for setting, style in self.drawn:
            runs = [(run, loaded) for run in setting.runs if (loaded := _read_arrays(run))]
            if not runs:
                continue
            pooled = pool([run.record for run, _ in runs])
            arrays = tuple(each for _, each in runs)
            islands = setting.islands or 0
            rows.append(
                MethodResult(style, setting.method, islands, pooled, arrays, setting.in_paper)
            )
        return Comparison(self.study.name, PAPER, tuple(rows)) if rows else None

    @property
    def abstains(self) -> bool:
        """Whether there are results, and inputs out of domain, which the meta-classifier needs."""
        if best_setting(self.study.settings) is None:
            return False
        start = "entropy.epistemic.ood."
        metrics = (name for setting in self.study.settings for name in setting.pooled.values)
        return self.comparison is not None or any(name.startswith(start) for name in metrics)

    def omitted(
        self, shown: int, total: int, noun: str = "setting", plural: str | None = None
    ) -> Html | None:
        """A note on what a figure or table leaves out; None if it shows everything."""
        if shown >= total:
            return None
        text = f"{shown:,} of {count(total, noun, plural)} are shown. "
        text += "To see others, give their folders to "
        return el("p", text, el("code", "sbmc report"), ".", class_="note")

    @property
    def confidence_command(self) -> str:
        """How to get what the meta-classifier needs."""
        return f"sbmc run {self.study.name} --confidence"


def missing(text: str, command: str) -> Html:
    """The one line of a section that has no data: which command would give them."""
    return el("p", f"{text} ", el("code", command), class_="missing")


def lacking_section(name: str, title: str, text: str, command: str) -> Section:
    """A section that has no data: what it would show, and which command would give it."""
    return Section(name, title, missing(text, command), lacking=True)


def best_setting(settings: Sequence[Setting]) -> Setting | None:
    """The setting to speak of: that of the lowest NLL, or else of the highest accuracy.

    Args:
        settings: any.

    Returns:
        One of them; None if none has an accuracy.
    """
    with_accuracy = [each for each in settings if each.value("accuracy") is not None]
    with_nll = [each for each in with_accuracy if each.value("nll") is not None]
    if with_nll:
        return min(with_nll, key=lambda each: each.value("nll") or 0.0)
    return max(with_accuracy, key=lambda each: each.value("accuracy") or 0.0, default=None)


def _interest(setting: Setting) -> int:
    """What to draw first: runs with the meta-classifier, then rows of the short table."""
    with_confidence = any(has_confidence(run.record) for run in setting.runs)
    return 2 * with_confidence + setting.headline


def _read_arrays(run: StoredRun) -> dict[str, np.ndarray] | None:
    """The arrays that the meta-classifier left beside a record, in the paper's protocol.

    Args:
        run: the record and its folder.

    Returns:
        All arrays; None if the file is not there, is damaged or lacks one that a figure needs.
    """
    arrays = read_arrays(run.folder, PAPER) if has_confidence(run.record) else None
    return arrays if arrays is not None and set(arrays) >= _NEEDED else None


_NEEDED = {
    *("roc.false_positive_rate", "roc.true_positive_rate"),
    *("two_level.thresholds", "two_level.accuracy"),
    *(f"risk_coverage.{k}.{v}" for k in ("mixed", "in_domain") for v in ("coverage", "risk")),
    *(
        f"reliability.{k}.{v}"
        for k in ("model", "score")
        for v in ("count", "probability", "frequency")
    ),
    *("confusion.default", "confusion.optimal_f1", "entropy.classes"),
}
