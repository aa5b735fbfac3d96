"""The paper's two claims about tuning: on made-up tunings, violations planted; on the record."""

from dataclasses import replace

import pytest
from repository import RECORDS

from sbmc.storage.files import write_json
from sbmc.tuning import Cell, Tuning
from sbmc.tuning.saved_cells import NAME
from sbmc_studies.paper.claims.all_studies import claim_lines
from sbmc_studies.paper.claims.tuning import (
    CLAIMS,
    check_tuning_claim,
    improves_with_v,
    insensitive_to_s,
)

FOLDS = 5
MAP = {0.025: (0.40, 0.84), 0.1: (0.35, 0.855), 1.0: (0.32, 0.865)}
SAMPLED = {0.0: (0.320, 0.865), 0.05: (0.319, 0.865), 0.1: (0.318, 0.866), 0.2: (0.320, 0.864),
           0.3: (0.322, 0.864), 1.0: (0.40, 0.84)}  # fmt: skip


def cell(v, s, fold, scores):
    # Folds differ by more than values do: a check that does not pair them would see nothing.
    nll, accuracy = scores[0] + 0.05 * fold, scores[1] - 0.02 * fold
    return Cell(v, s, fold, {"nll": nll, "accuracy": accuracy}, 10.0, 1.0)


def tuning(maps=MAP, sampled=SAMPLED, v=1.0):
    cells = [cell(each, None, fold, maps[each]) for each in maps for fold in range(FOLDS)]
    cells += [cell(v, s, fold, sampled[s]) for s in sampled for fold in range(FOLDS)]
    grids = tuple(maps), tuple(sampled)
    return Tuning({"folds": FOLDS}, 0, *grids, cells=tuple(cells), complete=True)


def test_a_tuning_as_the_paper_has_it_passes():
    good, words = improves_with_v(tuning())
    assert good, words
    assert "v = 1, nll: +0.0800 ± 0.0000" in words
    good, words = insensitive_to_s(tuning())
    assert good, words
    assert "v = 1: NLL 0.0040, accuracy 0.20 points" in words


@pytest.mark.parametrize(
    "planted",
    [
        {**MAP, 0.1: (0.41, 0.855)},  # NLL is worse
        {**MAP, 1.0: (0.32, 0.835)},  # accuracy is worse
        {**MAP, 1.0: (0.40, 0.865)},  # NLL is the same
    ],
)
def test_a_planted_violation_of_the_first(planted):
    assert not improves_with_v(tuning(planted))[0]


def test_a_gain_that_is_noise_does_not_count():
    noisy = tuning()
    signs = [1, -1, 1, -1, 0.5]  # a mean gain of 0.001 with a standard error of 0.004
    cells = [
        replace(c, scores={"nll": 0.4 + 0.05 * c.fold - 0.01 * signs[c.fold], "accuracy": 0.9})
        if c.v == 0.1 and c.s is None
        else c
        for c in noisy.cells
    ]
    good, words = improves_with_v(replace(noisy, cells=tuple(cells)))
    assert "v = 0.1, nll: +0.0010 ± 0.0041" in words
    assert not good


@pytest.mark.parametrize(
    "planted",
    [
        {**SAMPLED, 0.3: (0.330, 0.864)},  # NLL differs
        {**SAMPLED, 0.05: (0.319, 0.850)},  # accuracy differs
    ],
)
def test_a_planted_violation_of_the_second(planted):
    assert not insensitive_to_s(tuning(sampled=planted))[0]


def test_what_lies_outside_the_range_does_not_matter():
    assert insensitive_to_s(tuning(sampled={**SAMPLED, 0.0: (0.9, 0.5), 1.0: (0.9, 0.5)}))[0]


def test_missing_cells_fail(tmp_path):
    def verdicts(content=None):
        if content is not None:
            write_json(tmp_path / "imdb" / "tune" / "abc" / "seed-0" / NAME, content.as_dict())
        return [check_tuning_claim(claim, tmp_path) for claim in CLAIMS]

    assert [(v.holds, v.evidence) for v in verdicts()] == [(False, "missing: a tuning of imdb")] * 2
    assert [v.holds for v in verdicts(tuning())] == [True, True]
    assert [v.holds for v in verdicts(replace(tuning(), complete=False))] == [False, False]
    few = {s: scores for s, scores in SAMPLED.items() if s != 0.2}
    found = verdicts(tuning({1.0: MAP[1.0]}, few))
    assert [v.holds for v in found] == [False, False]
    assert "missing: v = 0.025" in found[0].evidence
    assert "missing: v = 1: s = [0.2]" in found[1].evidence


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_the_committed_tuning_of_imdb(claim):
    verdict = check_tuning_claim(claim, RECORDS)
    assert verdict.holds, f"{verdict.statement}: {verdict.evidence}"


def test_the_table_of_imdb_says_whether_they_hold():
    lines = claim_lines("imdb", RECORDS)
    for claim in CLAIMS:
        assert sum(line.startswith(f"✓ {claim.statement}: ") for line in lines) == 1
    assert not any(
        claim.statement in line for claim in CLAIMS for line in claim_lines("mnist7", RECORDS)
    )
