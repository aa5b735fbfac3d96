"""The paper's claims, checked on the runs of one page and on no others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sbmc.checks import BadInput
from sbmc_studies.paper.claims.all_studies import CONFIDENCE, STUDIES
from sbmc_studies.paper.claims.claim import Claim
from sbmc_studies.records.finding import MissingRecords, Runs
from sbmc_studies.report.collect import Study
from sbmc_studies.report.study_runs import StudyRuns

_PROTOCOLS = {"paper": "the paper’s protocol", "clean": "clean protocol"}


@dataclass(frozen=True)
class CheckedClaim:
    """A claim and what the records say about it.

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


def check_claims(study: Study) -> list[CheckedClaim]:
    """Check all claims that are made about a study.

    Args:
        study: the runs of the page.

    Returns:
        One for each claim, in the order of `sbmc table`; none for a study without claims.
    """
    if study.experiment is None:
        return []
    runs = StudyRuns(study)
    return [_check(*each, runs) for each in _claims_about(study.name)]


def _claims_about(name: str) -> Iterator[tuple[Claim, str, dict[str, str]]]:
    """Claims, each with its table or protocol and the list of shortfalls that it may be on."""
    claims, shortfalls = STUDIES.get(name, ((), {}))
    for claim in claims:
        yield claim, claim.table, shortfalls
    by_protocol, reasons = CONFIDENCE.get(name, ({}, {}))
    for protocol, about_abstention in by_protocol.items():
        for claim in about_abstention:
            where = _PROTOCOLS.get(protocol, protocol)
            yield claim, f"{claim.table}, {where}" if claim.table else where, reasons


def _check(claim: Claim, where: str, shortfalls: dict[str, str], runs: Runs) -> CheckedClaim:
    try:
        holds, evidence = claim.check(runs)
    except MissingRecords as missing:
        return CheckedClaim(claim.statement, None, str(missing), where)
    # A record may lack a metric that the check reads.
    except (KeyError, BadInput, AssertionError, TypeError) as missing:
        what = f"{missing}".strip("'") or "a metric"
        return CheckedClaim(claim.statement, None, f"the records lack {what}", where)
    why = "" if holds else shortfalls.get(claim.name, "")
    return CheckedClaim(claim.statement, holds, evidence, where, why)
