"""What the records of the meta-classifier must show on MNIST7, as checks. See `claim`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sbmc_studies.paper.claims.claim import Claim
from sbmc_studies.records.finding import Runs
from sbmc_studies.records.pooling import Pooled

AUC_ROC = {
    "paper": "confidence.default.auc_roc",
    "clean": "confidence.clean.default.auc_roc",
}
TOTAL_ENTROPY = {"paper": "ood.total.auroc", "clean": "ood.clean.total.auroc"}
GUARANTEE = "confidence.clean.guarantee"
# δ plus three binomial standard errors of its share among so many calibration sets.
DELTA, SPLITS = 0.05, 200
ALLOWED = DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / SPLITS)
COVERAGE = 0.5
MIXED_COVERAGE = 0.1


class Which(NamedTuple):
    """A row of the tables: method, P, preset and what differs from it."""

    method: str
    islands: int
    preset: str = "paper"
    overrides: Mapping[str, Any] = {}

    def pooled(self, runs: Runs) -> Pooled:
        """Its five seeds."""
        return runs(self.method, self.islands, self.preset, **self.overrides)


MAP = Which("map", 1)
SWA_ANCHORED = {islands: Which("s-hmc", islands, "best", {"anchor": "swa"}) for islands in (1, 8)}
ROWS = (
    MAP,
    Which("de", 1),
    Which("de", 8),
    Which("s-smc", 1),
    Which("s-smc", 8),
    Which("s-smc", 8, overrides={"island_weights": "equal"}),
    Which("s-hmc", 1),
    Which("s-hmc", 8),
    *SWA_ANCHORED.values(),
)


def _above(metric: str, ours: Which, theirs: Which) -> Callable[[Runs], tuple[bool, str]]:
    def check(runs: Runs) -> tuple[bool, str]:
        a, b = ours.pooled(runs), theirs.pooled(runs)
        gain = a.values[metric] - b.values[metric]
        error = math.hypot(a.errors[metric], b.errors[metric])
        numbers = f"{a.values[metric]:.3f} against {b.values[metric]:.3f}"
        return gain > 0, f"{numbers} ({gain:+.3f}±{error:.3f})"

    return check


def _violations(runs: Runs) -> tuple[bool, str]:
    kinds = ("in_domain", "mixed")
    values = _each_run(runs, *(f"{GUARANTEE}.{kind}.splits.violations" for kind in kinds))
    most, where = max(values)
    return most <= ALLOWED, f"at most {most:.1%} ({where}), {ALLOWED:.1%} allowed"


def _in_domain_coverage(runs: Runs) -> tuple[bool, str]:
    least, where = min(_each_run(runs, f"{GUARANTEE}.in_domain.splits.coverage"))
    return least >= COVERAGE, f"at least {least:.1%} ({where})"


def _mixed_coverage(runs: Runs) -> tuple[bool, str]:
    most, where = max(_each_run(runs, f"{GUARANTEE}.mixed.splits.coverage"))
    return most <= MIXED_COVERAGE, f"at most {most:.1%} ({where})"


def _each_run(runs: Runs, *names: str) -> list[tuple[float, str]]:
    """Metrics of every run, not their means: a guarantee is one for each."""
    values = []
    for row in ROWS:
        for record in row.pooled(runs).records:
            where = f"{row.method}, P = {row.islands}, seed {record.seed}"
            for name in names:
                value = record.metrics[name]
                assert value is not None  # shares of splits always exist
                values.append((value, where))
    return values


def _comparisons(protocol: str) -> tuple[Claim, ...]:
    auc, total = AUC_ROC[protocol], TOTAL_ENTROPY[protocol]
    claims = []
    for islands in (1, 8):
        ours, ensemble = Which("s-hmc", islands), Which("de", islands)
        name = f"{protocol}-p{islands}"
        start = f"AUC-ROC of S-HMC∥ (P = {islands}) above that of"
        claims += [
            Claim(f"auc-{name}-map", f"{start} MAP", _above(auc, ours, MAP)),
            Claim(
                f"auc-{name}-de",
                f"{start} the deep ensemble at the same P",
                _above(auc, ours, ensemble),
            ),
            Claim(
                f"total-{name}-de",
                f"by H_tot alone S-HMC∥ (P = {islands}) tells out-of-domain inputs better than the "
                "deep ensemble at the same P (AUROC)",
                _above(total, ours, ensemble),
            ),
            Claim(
                f"auc-{name}-swa-de",
                f"AUC-ROC of S-HMC∥, π/2, anchored at SWA (P = {islands}) above that of the deep "
                "ensemble at the same P",
                _above(auc, SWA_ANCHORED[islands], ensemble),
            ),
        ]
    return tuple(claims)


CLAIMS: dict[str, tuple[Claim, ...]] = {
    "paper": _comparisons("paper"),
    "clean": (
        *_comparisons("clean"),
        Claim(
            "guarantee-violations",
            "the guaranteed error of 2 % is exceeded by at most 5 % of 200 calibration sets, plus "
            "three standard errors, in domain and on the 50/50 mix, for every method and seed",
            _violations,
        ),
        Claim(
            "guarantee-coverage",
            "at 2 % error every method and seed answers at least half of the in-domain inputs",
            _in_domain_coverage,
        ),
        Claim(
            "guarantee-mixed",
            "at 2 % error no method and seed can answer more than 10 % of the 50/50 mix",
            _mixed_coverage,
        ),
    ),
}
"""By protocol: who knows best what not to trust, by the paper and by ours, and the guarantee."""

_BETTER_ENSEMBLE = (
    "our ensemble is better here than the paper's, whose AUC-ROC of 0.855 ours has with two "
    "members: its disagreement out of domain is a third of S-HMC's or less but ranks as well, and "
    "a rank is all that standardised features and AUC-ROC see"
)
SHORTFALLS: dict[str, str] = {
    f"auc-{protocol}-p{islands}-de": _BETTER_ENSEMBLE for protocol in AUC_ROC for islands in (1, 8)
}
"""Claims that the committed records do not bear out, and why. Tests hold it to the records."""
