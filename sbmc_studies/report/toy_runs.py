"""Runs of the toy study, read with the curves beside their records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING
from zipfile import BadZipFile, is_zipfile

from sbmc.checks import BadInput
from sbmc.report.numbers import count, short
from sbmc_studies.paper.toy.run import FILE, read_toy
from sbmc_studies.report.collect import Setting, Study

if TYPE_CHECKING:
    from sbmc_studies.paper.toy import Toy


def read_toys(setting: Setting) -> list[Toy]:
    """The runs of a setting that have their curves beside them."""
    toys = []
    for run in setting.runs:
        if not is_zipfile(run.folder / FILE):
            continue
        try:
            toy = read_toy(run.folder)
            cases = [case for family in ("s", "T") for case in toy.cases(family)]
        except (BadInput, KeyError, TypeError, OSError, ValueError, BadZipFile):
            continue
        needed = {f"{kind}.{case.name}" for case in cases for kind in ("density", "acf")}
        if set(toy.curves) >= needed | {"theta"} and all(
            toy.record.metrics.get(f"iact.{case.name}") is not None for case in cases
        ):
            toys.append(toy)
    return toys


def iacts(toys: Sequence[Toy], family: str) -> list[tuple[float, float]]:
    """Value of s or T, and the mean IACT over the seeds."""
    return [(case.value, _mean(toys, f"iact.{case.name}")) for case in toys[0].cases(family)]


def toy_sentences(study: Study) -> list[str]:
    """The toy study in three sentences; none if its curves are missing."""
    for setting in study.settings:
        toys = read_toys(setting)
        if not toys:
            continue
        sentences = []
        for family, name in (("s", "SBMC"), ("T", "A cold posterior")):
            values = iacts(toys, family)
            if len(values) > 1:
                (start, first), (end, last) = values[0], values[-1]
                change = "shortens" if last < first else "lengthens"
                sentences.append(
                    f"{name} {change} the memory of NUTS chains: the integrated autocorrelation "
                    f"time goes from {short(first)} draws at {family} = {start:g} to "
                    f"{short(last)} at {family} = {end:g}."
                )
        draws = toys[0].record.settings.get("draws")
        chains = toys[0].record.settings.get("islands")
        sentences.append(
            f"Each number rests on {chains} chains of {draws:,} draws"
            f" and {count(len(toys), 'seed')}."
        )
        return sentences
    return []


def _mean(toys: Sequence[Toy], name: str) -> float:
    return sum(float(toy.record.metrics[name] or math.nan) for toy in toys) / len(toys)
