"""The paper's claims, decided on the records that were given, and on no others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from sbmc.checks import BadInput
from sbmc.report.collect import Study
from sbmc.studies.claims import CLAIMS, HEADLINE, MissingRecords, Runs, Verdict
from sbmc.studies.methods import get_method
from sbmc.studies.pooling import SEEDS, Pooled, pool
from sbmc.studies.settings import resolve, settings_hash

# The experiment that the claims are about.
_ABOUT = "mnist7"


@dataclass(frozen=True, eq=False)
class _Given:
    """Finds pooled runs among those of a study, as `sbmc.studies.claims.Runs` does in a folder."""

    study: Study

    def __call__(
        self, method: str, islands: int = 1, preset: str = "paper", **overrides: Any
    ) -> Pooled:
        if self.study.experiment is None:
            raise MissingRecords(self.study.name)
        if method != "map":
            overrides["islands"] = islands
        settings = resolve(self.study.experiment, get_method(method), preset, overrides)
        digest = settings_hash(self.study.name, method, settings)
        for setting in self.study.find(method):
            seeds = [run.record for run in setting.runs if run.record.seed in SEEDS]
            if setting.record.hash == digest and len(seeds) == len(SEEDS):
                return pool(seeds)
        raise MissingRecords(f"{method} ({preset}, P = {islands})")


def checked_claims(study: Study) -> tuple[list[Verdict], int]:
    """Decide the claims whose records are all here.

    Args:
        study: what was found.

    Returns:
        Verdicts, and how many claims could not be decided.
    """
    if study.name != _ABOUT:
        return [], 0
    verdicts, unchecked = [], 0
    given = cast("Runs", _Given(study))
    for claim in (*CLAIMS, *HEADLINE):
        try:
            holds, evidence = claim.check(given)
        except (MissingRecords, KeyError, BadInput):
            unchecked += 1
            continue
        verdicts.append(Verdict(claim.statement, holds, evidence))
    return verdicts, unchecked
