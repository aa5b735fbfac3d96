"""The paper's claims, decided on the records that were given, and on no others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sbmc.checks import BadInput
from sbmc_studies.paper.claims.all_studies import CONFIDENCE, STUDIES
from sbmc_studies.paper.claims.claim import Claim
from sbmc_studies.records.finding import MissingRecords, Runs
from sbmc_studies.report.collect import Study
from sbmc_studies.report.given import Given

_PROTOCOLS = {"paper": "the paper’s protocol", "clean": "clean protocol"}


@dataclass(frozen=True)
class Decided:
    """What came of a claim.

    Attributes:
        statement: the claim, in words.
        holds: whether the records bear it out; None if some of them are missing.
        evidence: the numbers, or what is missing.
        where: the paper's table, or the protocol of the meta-classifier.
        why: the reason on the list of shortfalls, if it is there and does not hold.
    """

    statement: str
    holds: bool | None
    evidence: str
    where: str = ""
    why: str = ""


def decide_claims(study: Study) -> list[Decided]:
    """Decide all claims that are made of a study.

    Args:
        study: what was found.

    Returns:
        One for each claim, in the order of `sbmc table`; none for a study without claims.
    """
    if study.experiment is None:
        return []
    given = Given(study)
    return [_decide(*each, given) for each in _all(study.name)]


def _all(name: str) -> Iterator[tuple[Claim, str, dict[str, str]]]:
    """Claims with what they are about and the list of shortfalls that they may be on."""
    made, shortfalls = STUDIES.get(name, ((), {}))
    for claim in made:
        yield claim, claim.table, shortfalls
    by_protocol, reasons = CONFIDENCE.get(name, ({}, {}))
    for protocol, claims in by_protocol.items():
        for claim in claims:
            where = _PROTOCOLS.get(protocol, protocol)
            yield claim, f"{claim.table}, {where}" if claim.table else where, reasons


def _decide(claim: Claim, where: str, shortfalls: dict[str, str], given: Runs) -> Decided:
    try:
        holds, evidence = claim.check(given)
    except MissingRecords as missing:
        return Decided(claim.statement, None, str(missing), where)
    # A record may lack a metric, or have none where a check takes it for granted.
    except (KeyError, BadInput, AssertionError, TypeError) as missing:
        what = f"{missing}".strip("'") or "a metric"
        return Decided(claim.statement, None, f"the records lack {what}", where)
    why = "" if holds else shortfalls.get(claim.name, "")
    return Decided(claim.statement, holds, evidence, where, why)
