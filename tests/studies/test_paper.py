import pytest

from sbmc.checks import BadInput
from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.paper.numbers import find_row, gold_standards, main_rows, read_table


def test_table_1_as_printed():
    row = find_row("mnist7", "s-hmc", 8)
    assert row is not None
    assert row.values == pytest.approx(
        {
            "accuracy": 0.931,
            "nll": 0.231,
            "entropy.epistemic.correct": 0.070,
            "entropy.epistemic.incorrect": 0.299,
            "entropy.epistemic.ood.all": 0.531,
        }
    )
    assert row.errors["accuracy"] == pytest.approx(0.00085)
    assert (row.epochs, row.total_epochs) == (160, 12960)


def test_an_error_that_the_paper_does_not_give_is_absent():
    row = find_row("mnist7", "map", 1)
    assert row is not None
    assert row.values["entropy.epistemic.ood.all"] == 0
    assert "entropy.epistemic.ood.all" not in row.errors


def test_gold_standards_are_those_of_the_s_ablation():
    rows = gold_standards("mnist7")
    assert [row.epochs for row in rows] == [2e4, 2e5, 1.8e6]
    # Table 1 prints an NLL of 1.94 and an H_ep of 1.04 for the second; neither can be.
    assert rows[1].values["nll"] == pytest.approx(0.1942)
    groups = (0.5635, 0.4067, 1.602, 1.031)
    assert rows[1].values["entropy.epistemic.ood.all"] == pytest.approx(sum(groups) / 4)
    assert all(row.method != "hmc-gs" for row in main_rows("mnist7"))


def test_every_table_row_that_names_the_paper_finds_its_row():
    rows = [row for row in get_experiment("mnist7").rows if row.paper]
    assert len(rows) == 30
    for row in rows:
        assert row.paper is not None
        assert find_row("mnist7", **row.paper) is not None, row


def test_what_the_paper_does_not_have():
    assert main_rows("digits") == ()
    assert gold_standards("digits") == ()
    assert find_row("mnist7", "hmc", 8) is None
    with pytest.raises(BadInput, match="table of the paper"):
        read_table("mnist8")
