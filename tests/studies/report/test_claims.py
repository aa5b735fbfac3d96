"""Claims on the page: what holds, what does not and why, and what a record is missing for."""

import pytest
from report_pages import read_page
from repository import RECORDS
from study_records import entropies, write

from sbmc_studies.paper.claims.all_studies import CONFIDENCE, STUDIES, confidence_claim_lines
from sbmc_studies.paper.claims.claim import check_claim
from sbmc_studies.paper.numbers import groups
from sbmc_studies.report import collect
from sbmc_studies.report.claims import check_claims


def write_cifar(out, accuracy=0.9):
    """MAP, and S-HMC∥ of eight islands with another accuracy."""
    names = groups("cifar10")
    write(out, "cifar10", "map", {"accuracy": 0.89, "nll": 0.3} | entropies(names, 0, 0, 0))
    ours = {"accuracy": accuracy, "nll": 0.29} | entropies(names)
    write(out, "cifar10", "s-hmc", ours, islands=8)
    return collect([out]).studies[0]


def test_claims_hold_fail_or_wait_for_records(tmp_path):
    found = {each.statement: each for each in check_claims(write_cifar(tmp_path, 0.88))}
    failed = found["s = 0.05: S-HMC∥, P = 8, is no less accurate than MAP"]
    assert (failed.holds, failed.evidence) == (False, "88.00% against 89.00%")
    assert found["s = 0.05: S-HMC∥, P = 8, has a lower NLL than MAP"].holds is True
    waiting = found["s = 0.1: S-HMC∥, P = 8, is no less accurate than MAP"]
    assert waiting.holds is None
    assert waiting.evidence == "s-hmc, s = 0.1, P = 8 is not here; seeds 0 to 2 are needed"
    auc = [each for each in found.values() if "AUC-ROC" in each.statement]
    assert {each.holds for each in auc} == {None}


def test_the_page_has_the_three_lists(tmp_path):
    write_cifar(tmp_path, 0.88)
    page = read_page(tmp_path)
    summaries = [words for tag, words in page.texts if tag == "summary"]
    assert "Do not hold (1)" in summaries
    text = " ".join(page.text.split())
    assert "✗ does not hold s = 0.05: S-HMC∥, P = 8, is no less accurate than MAP: 88.00% " in text
    assert "(tab:metric_diffs_cifar) Why: no reason is known." in text
    assert "– record missing" in text


def test_a_missing_seed_is_named(tmp_path):
    write(tmp_path, "cifar10", "map", {"accuracy": 0.89, "nll": 0.3}, range(2))
    write(tmp_path, "cifar10", "s-hmc", {"accuracy": 0.9, "nll": 0.3}, islands=8)
    found = check_claims(collect([tmp_path]).studies[0])
    assert "map has seed 0, 1; seeds 0 to 4 are needed" in {each.evidence for each in found}


def test_runs_that_decide_nothing_get_one_line(tmp_path):
    write(tmp_path, "cifar10", "map", {"accuracy": 0.89, "nll": 0.3}, range(1))
    text = read_page(tmp_path).text
    assert "claims of this study need further runs. With them:" in text
    assert "record missing" not in text


def test_a_study_without_claims_has_no_section(tmp_path):
    write(tmp_path, "digits", "map", {"accuracy": 0.5}, range(1))
    assert check_claims(collect([tmp_path]).studies[0]) == []
    titles = [words for tag, words in read_page(tmp_path).texts if tag == "h3"]
    assert not [title for title in titles if "Claims" in title]


@pytest.mark.parametrize("name", [*STUDIES])
def test_all_claims_of_a_study_are_there(tmp_path, name):
    write(tmp_path, name, "map", {"accuracy": 0.5}, range(1))
    found = check_claims(collect([tmp_path]).studies[0])
    confidence, _ = CONFIDENCE.get(name, ({}, {}))
    made = [*STUDIES[name][0], *(each for claims in confidence.values() for each in claims)]
    assert [each.statement for each in found] == [each.statement for each in made]
    assert {each.holds for each in found} == {None}


def test_committed_records_are_decided_as_by_sbmc_table():
    name = "imdb"
    study = collect([RECORDS / name]).studies[0]
    found = check_claims(study)
    claims, shortfalls = STUDIES[name]
    for claim, ours in zip(claims, found, strict=False):
        theirs = check_claim(claim, RECORDS, name)
        assert ours.statement == theirs.statement
        if ours.holds is None:
            assert theirs.evidence.startswith("missing")
        else:
            assert (ours.holds, ours.evidence) == (theirs.holds, theirs.evidence)
            assert ours.why == ("" if ours.holds else shortfalls.get(claim.name, ""))
    more = [
        line
        for protocol in ("paper", "clean")
        for line in confidence_claim_lines(name, RECORDS, protocol)
        if not line.startswith("  why: ")
    ]
    assert len(found) == len(claims) + len(more)
    for line, ours in zip(more, found[len(claims) :], strict=True):
        assert line.startswith(f"{'✓' if ours.holds else '✗'} {ours.statement}: ")
