"""The claims of every study, by its name."""

from __future__ import annotations

from pathlib import Path

from sbmc.studies.claims import cifar10, imdb, mnist7, shakespeare
from sbmc.studies.claims.claim import Claim, check_claim

STUDIES: dict[str, tuple[tuple[Claim, ...], dict[str, str]]] = {
    "mnist7": ((*mnist7.CLAIMS, *mnist7.HEADLINE), mnist7.SHORTFALLS),
    "imdb": (imdb.CLAIMS, imdb.SHORTFALLS),
    "cifar10": (cifar10.CLAIMS, cifar10.SHORTFALLS),
    "shakespeare": (shakespeare.CLAIMS, shakespeare.SHORTFALLS),
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
