"""The paper's claims about tuning, as checks on a tuning.

In its section "Tuning": results hardly depend on s in [0.05, 0.3], while v matters for every
method; from v = 1/40 to a larger one, accuracy and NLL on IMDb both improve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sbmc.prediction.metrics import mean_and_error
from sbmc.tuning.result import Point, Tuning, read_tuning
from sbmc.tuning.saved_cells import NAME
from sbmc_studies.paper.claims.claim import Verdict

SMALL_V = 1 / 40
LARGER_V = (0.1, 1.0)
S_RANGE = (0.05, 0.1, 0.2, 0.3)
# Twice what the paper's own table varies by over s = 0.1, 0.25 and 0.35, on IMDb at v = 1 with
# P = 1: 0.0044 of NLL and 0.27 points of accuracy for S-SMC∥, and less for S-HMC∥.
NLL_WITHIN, ACCURACY_WITHIN = 0.009, 0.0055
# A paired difference over five folds has to be so many of its standard errors away from 0.
ERRORS_AWAY = 2.0


@dataclass(frozen=True)
class TuningClaim:
    """A statement and the check that decides it.

    Attributes:
        name: short, for test reports.
        statement: what is claimed, as a sentence.
        check: says whether it holds and by what numbers; raises LookupError if cells are missing.
    """

    name: str
    statement: str
    check: Callable[[Tuning], tuple[bool, str]]


def improves_with_v(tuning: Tuning) -> tuple[bool, str]:
    """Whether the MAP has lower NLL and higher accuracy at v = 0.1 and 1 than at 1/40.

    Folds are compared with themselves: the mean difference has to be two of its standard errors.
    """
    good, evidence = True, []
    for larger in LARGER_V:
        for score, sign in (("nll", -1.0), ("accuracy", 1.0)):
            before = _by_fold(tuning, SMALL_V, None, score)
            after = _by_fold(tuning, larger, None, score)
            gains = [sign * (b - a) for a, b in zip(before, after, strict=True)]
            gain, error = mean_and_error(gains)
            good &= gain > ERRORS_AWAY * error
            evidence.append(f"v = {larger:g}, {score}: {gain:+.4f} ± {error:.4f}")
    return good, "gain over v = 1/40: " + "; ".join(evidence)


def insensitive_to_s(tuning: Tuning) -> tuple[bool, str]:
    """Whether scores at s = 0.05, 0.1, 0.2 and 0.3 are all but the same, at every v sampled."""
    sampled = sorted({cell.v for cell in tuning.cells if cell.s in S_RANGE})
    if not sampled:
        raise LookupError("no s was sampled")
    good, evidence = True, []
    for v in sampled:
        points = tuning.at(v, S_RANGE)
        missing = set(S_RANGE) - {p.value for p in points if p.folds == tuning.folds}
        if missing:
            raise LookupError(f"v = {v:g}: s = {sorted(missing)}")
        nll, accuracy = spread(points, "nll"), spread(points, "accuracy")
        good &= nll <= NLL_WITHIN and accuracy <= ACCURACY_WITHIN
        evidence.append(f"v = {v:g}: NLL {nll:.4f}, accuracy {100 * accuracy:.2f} points")
    return good, "differences over s: " + "; ".join(evidence)


def spread(points: Sequence[Point], score: str) -> float:
    """Largest minus smallest mean."""
    values = [point.means[score] for point in points]
    return max(values) - min(values)


def _by_fold(tuning: Tuning, v: float, s: float | None, score: str) -> list[float]:
    cells = sorted((c for c in tuning.cells if (c.v, c.s) == (v, s)), key=lambda c: c.fold)
    if len(cells) < tuning.folds or not all(cell.scores for cell in cells):
        raise LookupError(f"v = {v:g} on all {tuning.folds} folds")
    return [cell.scores[score] for cell in cells]


CLAIMS = (
    TuningClaim(
        "v-matters",
        "IMDb: the MAP's held-out NLL and accuracy improve when v grows from 1/40 to 0.1 and to 1",
        improves_with_v,
    ),
    TuningClaim(
        "s-does-not",
        f"IMDb: over s in [0.05, 0.3], S-HMC∥'s held-out NLL differs by at most {NLL_WITHIN} and "
        f"its accuracy by at most {100 * ACCURACY_WITHIN:g} points",
        insensitive_to_s,
    ),
)


def check_tuning_claim(claim: TuningClaim, records: Path, experiment: str = "imdb") -> Verdict:
    """Decide a claim on all complete tunings of an experiment; it has to hold on each.

    Args:
        claim: one of `CLAIMS`.
        records: the folder of all records.
        experiment: whose.

    Returns:
        The verdict; a claim without a complete tuning does not hold.
    """
    paths = sorted(Path(records).glob(f"{experiment}/tune/*/seed-*/{NAME}"))
    tunings = [tuning for tuning in map(read_tuning, paths) if tuning.complete]
    if not tunings:
        return Verdict(claim.statement, False, f"missing: a tuning of {experiment}")
    holds, evidence = True, []
    for tuning in tunings:
        try:
            good, numbers = claim.check(tuning)
        except LookupError as missing:
            good, numbers = False, f"missing: {missing}"
        holds &= good
        evidence.append(numbers)
    return Verdict(claim.statement, holds, "; ".join(evidence))
