"""The paper's claims on next-token prediction: on the committed records, and on made-up ones."""

import pytest
from repository import RECORDS
from study_records import write

from sbmc_studies.paper.claims.all_studies import STUDIES
from sbmc_studies.paper.claims.claim import check_claim
from sbmc_studies.paper.claims.shakespeare import CLAIMS, SHORTFALLS, SIZES
from sbmc_studies.paper.numbers import table_names


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_claim_holds_on_the_committed_records(claim):
    verdict = check_claim(claim, RECORDS, "shakespeare")
    assert "missing" not in verdict.evidence
    assert verdict.holds is (claim.name not in SHORTFALLS), verdict.evidence


@pytest.fixture
def records(tmp_path):
    for _, overrides, seeds in SIZES.values():
        for method, gain in (("map", 0.0), ("s-hmc", 0.01)):
            metrics = {
                "accuracy": 0.36 + gain,
                "nll": 3.3 - gain,
                "entropy.epistemic.correct": gain,
                "entropy.epistemic.incorrect": 2 * gain,
            }
            write(tmp_path, "shakespeare", method, metrics, seeds=range(seeds), **overrides)
    return tmp_path


def broken(records):
    return {c.name for c in CLAIMS if not check_claim(c, records, "shakespeare").holds}


def test_all_can_hold_and_each_can_fail(records):
    assert STUDIES["shakespeare"] == (CLAIMS, SHORTFALLS)
    assert {claim.table for claim in CLAIMS} <= set(table_names())
    assert broken(records) == set()
    metrics = {
        "accuracy": 0.36,
        "nll": 3.31,
        "entropy.epistemic.correct": 0.1,
        "entropy.epistemic.incorrect": 0.1,
    }
    write(records, "shakespeare", "s-hmc", metrics, seeds=range(2), fraction=0.3)
    assert broken(records) == {"part-accuracy", "part-nll", "part-mistakes"}


def test_a_missing_seed_fails(tmp_path, records):
    for path in tmp_path.rglob("seed-1/record.json"):
        path.unlink()
    found = [check_claim(claim, records, "shakespeare") for claim in CLAIMS]
    assert ["missing" in verdict.evidence for verdict in found] == [False] * 3 + [True] * 3
