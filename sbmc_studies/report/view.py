"""What the sections of one study share: what is drawn, how it looks, and how much is shown."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from sbmc.report.charts.looks import Look
from sbmc.report.limits import Limits
from sbmc.report.markup import Html, el
from sbmc.report.numbers import count
from sbmc_studies.figures.measured import Measured, Measurements
from sbmc_studies.records.pooling import pool
from sbmc_studies.report.collect import Found, Setting, Study
from sbmc_studies.runs import confidence
from sbmc_studies.runs.confidence import has_confidence

# Figures of the meta-classifier show the paper's protocol, as the paper's own do.
PROTOCOL = "paper"


@dataclass(frozen=True)
class Section:
    """A part of a study's page.

    Attributes:
        name: for links; letters and hyphens.
        title: its heading.
        body: what stands below it.
    """

    name: str
    title: str
    body: Html


@dataclass(frozen=True, eq=False)
class View:
    """A study on its way into a page.

    Attributes:
        study: what was found.
        limits: how much of it is shown.
        number: of the study on the page, so that no two things have one name.
        data_dir: where data sets are looked for first, for pictures and texts.
    """

    study: Study
    limits: Limits = field(default_factory=Limits)
    number: int = 1
    data_dir: Path | None = None

    def name(self, part: str) -> str:
        """A name for an element that no other study has."""
        return f"e{self.number}-{part}"

    @cached_property
    def drawn(self) -> list[tuple[Setting, Look]]:
        """The settings that figures show, with the looks they have in all of them."""
        best = best_setting(self.study.settings)
        ranked = sorted(
            enumerate(self.study.settings),
            key=lambda each: (each[1] is not best, -_interest(each[1]), each[0]),
        )
        chosen = sorted(index for index, _ in ranked[: self.limits.series])
        settings = [self.study.settings[index] for index in chosen]
        return [(setting, Look(i, setting.label)) for i, setting in enumerate(settings)]

    @cached_property
    def measured(self) -> tuple[Measurements, list[Look]] | None:
        """What the meta-classifier left behind for the drawn settings; None if for none."""
        rows, looks = [], []
        for setting, look in self.drawn:
            runs = [(run, found) for run in setting.runs if (found := read_arrays(run)) is not None]
            if not runs:
                continue
            pooled = pool([run.record for run, _ in runs])
            arrays = tuple(found for _, found in runs)
            in_paper = any(row.paper for row in setting.rows)
            islands = setting.islands or 0
            rows.append(Measured(look.label, setting.method, islands, pooled, arrays, in_paper))
            looks.append(look)
        if not rows:
            return None
        return Measurements(self.study.name, PROTOCOL, tuple(rows)), looks

    @property
    def abstains(self) -> bool:
        """Whether the meta-classifier has something to do here: it needs inputs out of domain."""
        start = "entropy.epistemic.ood."
        known = (name for setting in self.study.settings for name in setting.pooled.values)
        return self.measured is not None or any(name.startswith(start) for name in known)

    def omitted(
        self, shown: int, there: int, what: str = "setting", plural: str | None = None
    ) -> Html | None:
        """Words for what a figure or table leaves out; None if it shows everything."""
        if shown >= there:
            return None
        words = f"{shown:,} of {count(there, what, plural)} are shown. "
        words += "To see others, give their folders to "
        return el("p", words, el("code", "sbmc report"), ".", class_="note")

    @property
    def confidence_command(self) -> str:
        """How to get what the meta-classifier needs."""
        return f"sbmc run {self.study.name} --confidence"


def missing(words: str, command: str) -> Html:
    """The one line of a section that has no data: what would give them."""
    return el("p", words + " ", el("code", command), class_="missing")


def best_setting(settings: Sequence[Setting]) -> Setting | None:
    """The setting to speak of: that of the lowest NLL, or else of the highest accuracy.

    Args:
        settings: any.

    Returns:
        One of them; None if none has an accuracy.
    """
    known = [each for each in settings if each.value("accuracy") is not None]
    with_nll = [each for each in known if each.value("nll") is not None]
    if with_nll:
        return min(with_nll, key=lambda each: each.value("nll") or 0.0)
    return max(known, key=lambda each: each.value("accuracy") or 0.0, default=None)


def _interest(setting: Setting) -> int:
    """What to draw first: runs with confidence, and rows of the short table."""
    sure = any(has_confidence(run.record) for run in setting.runs)
    return 2 * sure + setting.headline


def read_arrays(run: Found, needed: Collection[str] | None = None) -> dict[str, np.ndarray] | None:
    """The arrays that the meta-classifier left beside a record.

    Args:
        run: whose.
        needed: names that have to be among them; those of all figures if not given.

    Returns:
        All arrays; None if the file is not there, is damaged or lacks one.
    """
    arrays = confidence.read_arrays(run.folder, PROTOCOL) if has_confidence(run.record) else None
    if arrays is None:
        return None
    return arrays if set(arrays) >= set(_NEEDED if needed is None else needed) else None


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
