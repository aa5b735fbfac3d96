"""A claim of the paper, and the verdict on it. A claim whose records are missing fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sbmc_studies.records.finding import MissingRecords, Runs, RunsInFolder

EPISTEMIC = "entropy.epistemic"


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim.

    Attributes:
        statement: the claim.
        holds: whether it holds on the records.
        evidence: the numbers, or what is missing.
    """

    statement: str
    holds: bool
    evidence: str


@dataclass(frozen=True)
class Claim:
    """A statement and the check that decides it.

    Attributes:
        name: short, for test reports.
        statement: what is claimed, as a sentence.
        check: given a function that finds pooled runs, says whether it holds and by what numbers.
        table: the paper's table that it rests on, by the name of its file, where that is not the
            study's main one.
    """

    name: str
    statement: str
    check: Callable[[Runs], tuple[bool, str]]
    table: str = ""


def check_claim(claim: Claim, records: Path, experiment: str = "mnist7") -> Verdict:
    """Decide one claim.

    Args:
        claim: which.
        records: the folder of all records.
        experiment: whose records.

    Returns:
        The verdict; a claim whose records are missing does not hold.
    """
    try:
        holds, evidence = claim.check(RunsInFolder(records, experiment))
    except MissingRecords as missing:
        return Verdict(claim.statement, False, f"missing: {missing}")
    except KeyError as missing:
        return Verdict(claim.statement, False, f"missing metric: {missing}")
    return Verdict(claim.statement, holds, evidence)
