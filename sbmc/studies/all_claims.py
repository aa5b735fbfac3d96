"""The claims of every study, by its name."""

from __future__ import annotations

from pathlib import Path

from sbmc.studies import cifar10_claims, claims, imdb_claims, shakespeare_claims
from sbmc.studies.claims import Claim, check_claim

STUDIES: dict[str, tuple[tuple[Claim, ...], dict[str, str]]] = {
    "mnist7": ((*claims.CLAIMS, *claims.HEADLINE), claims.SHORTFALLS),
    "imdb": (imdb_claims.CLAIMS, imdb_claims.SHORTFALLS),
    "cifar10": (cifar10_claims.CLAIMS, cifar10_claims.SHORTFALLS),
    "shakespeare": (shakespeare_claims.CLAIMS, shakespeare_claims.SHORTFALLS),
}
"""Claims and shortfalls of a study."""


def claim_lines(experiment: str, records: Path) -> list[str]:
    """Say which claims the records bear out.

    Args:
        experiment: the study's name.
        records: the folder of all records.

    Returns:
        A line for each claim, and one more for why a shortfall is one; none for a study that
        makes no claims.
    """
    lines = []
    made, shortfalls = STUDIES.get(experiment, ((), {}))
    for claim in made:
        verdict = check_claim(claim, records, experiment)
        where = f" [{claim.table}]" if claim.table else ""
        mark = "✓" if verdict.holds else "✗"
        lines.append(f"{mark} {verdict.statement}: {verdict.evidence}{where}")
        decided = not verdict.evidence.startswith("missing")
        if decided and not verdict.holds and claim.name in shortfalls:
            lines.append(f"  why: {shortfalls[claim.name]}")
    return lines
