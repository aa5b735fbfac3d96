"""The claims of every study, by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sbmc.checks import require
from sbmc_studies.paper.claims import (
    cifar10,
    feature_confidence,
    imdb,
    mnist7,
    mnist7_confidence,
    shakespeare,
    tuning,
)
from sbmc_studies.paper.claims.claim import Claim, Verdict, check_claim
from sbmc_studies.runs.confidence import PROTOCOLS

STUDIES: dict[str, tuple[tuple[Claim, ...], dict[str, str]]] = {
    "mnist7": ((*mnist7.CLAIMS, *mnist7.HEADLINE), mnist7.SHORTFALLS),
    "imdb": (imdb.CLAIMS, imdb.SHORTFALLS),
    "cifar10": (cifar10.CLAIMS, cifar10.SHORTFALLS),
    "shakespeare": (shakespeare.CLAIMS, shakespeare.SHORTFALLS),
}
"""Claims and shortfalls of a study."""

CONFIDENCE: dict[str, tuple[Mapping[str, tuple[Claim, ...]], dict[str, str]]] = {
    "mnist7": (mnist7_confidence.CLAIMS, mnist7_confidence.SHORTFALLS),
    **{
        name: (claims, feature_confidence.SHORTFALLS[name])
        for name, claims in feature_confidence.CLAIMS.items()
    },
}
"""Claims about the meta-classifier, by protocol, and their shortfalls."""

TUNING = {"imdb": tuning.CLAIMS}
"""Claims about the choice of v and s, which are decided on tunings instead of runs."""


def claim_lines(experiment: str, records: Path) -> list[str]:
    """Say which claims the records bear out.

    Args:
        experiment: the study's name.
        records: the folder of all records.

    Returns:
        A line for each claim, and one more for why a shortfall is one; none for a study that
        makes no claims.
    """
    made, shortfalls = STUDIES.get(experiment, ((), {}))
    about_tuning = TUNING.get(experiment, ())
    verdicts = [tuning.check_tuning_claim(each, records, experiment) for each in about_tuning]
    return _lines(experiment, records, made, shortfalls) + [_line(each) for each in verdicts]


def confidence_claim_lines(experiment: str, records: Path, protocol: str) -> list[str]:
    """Say which claims about the meta-classifier the records bear out.

    Args:
        experiment: the study's name.
        records: the folder of all records.
        protocol: `"paper"` or `"clean"`.

    Returns:
        As `claim_lines`.

    Raises:
        BadInput: if there is no such protocol.
    """
    require(protocol in PROTOCOLS, "protocol", f"one of {', '.join(PROTOCOLS)}", protocol)
    made, shortfalls = CONFIDENCE.get(experiment, ({}, {}))
    return _lines(experiment, records, made.get(protocol, ()), shortfalls)


def _lines(
    experiment: str, records: Path, made: Sequence[Claim], shortfalls: Mapping[str, str]
) -> list[str]:
    lines = []
    for claim in made:
        verdict = check_claim(claim, records, experiment)
        lines.append(_line(verdict) + (f" [{claim.table}]" if claim.table else ""))
        decided = not verdict.evidence.startswith("missing")
        if decided and not verdict.holds and claim.name in shortfalls:
            lines.append(f"  why: {shortfalls[claim.name]}")
    return lines


def _line(verdict: Verdict) -> str:
    return f"{'✓' if verdict.holds else '✗'} {verdict.statement}: {verdict.evidence}"
