"""`sbmc table` of the studies on features: all tables, notes and claims, whatever is missing."""

import pytest
from study_records import entropies, write

from sbmc_studies.paper.numbers import groups
from sbmc_studies.paper.tables.specs import appendix_specs


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    for study in ("imdb", "cifar10"):
        metrics = {"accuracy": 0.9, "nll": 0.3, "brier": 0.15, "ece": 0.02}
        metrics |= entropies(groups(study))
        write(folder, study, "map", metrics, seeds=[0, 1])
        confident = {"confidence.default.auc_roc": 0.8125, **metrics}
        write(folder, study, "s-hmc", confident, seeds=[0, 1], islands=8)
    return folder


@pytest.mark.parametrize("study", ["imdb", "cifar10"])
def test_every_table_is_printed(sbmc, records, study):
    code, output, errors = sbmc("table", study, "--records", str(records))
    assert (code, errors) == (0, "")
    assert "MAP (2 of 5 seeds)" in output
    for spec in appendix_specs(study):
        assert f"{spec.paper}: {spec.title}" in output
    for group in groups(study):
        assert f"H_ep {group.replace('_', ' ')}" in output
        assert f"H_tot {group.replace('_', ' ')}" in output
    assert "what each buys with its wall time" in output
    assert "Claims, checked on these records:" in output
    assert "missing: " in output
    assert ("Brier score for IMDb is of one class" in output) is (study == "imdb")


@pytest.mark.parametrize("study", ["imdb", "cifar10"])
def test_markdown_has_the_same_tables(sbmc, records, study):
    code, output, _ = sbmc("table", study, "--records", str(records), "--format", "markdown")
    assert code == 0
    assert all(f"**{spec.paper}: " in output for spec in appendix_specs(study))
    assert output.startswith("|  | P | accuracy % |")


@pytest.mark.parametrize(("study", "paper"), [("imdb", "0.944±0.002"), ("cifar10", "0.867±0.000")])
def test_the_tables_of_confidence(sbmc, records, study, paper):
    code, output, _ = sbmc("table", study, "--records", str(records), "--confidence")
    assert code == 0
    assert paper in output  # the paper's AUC-ROC of S-HMC∥ with P = 8
    assert "0.812±0.000" in output
    assert "Claims, checked on these records, paper protocol:" in output
    assert "SWA" not in output  # those of MNIST7 are not asked of other studies


def test_the_list_of_the_papers_tables(sbmc, records, tmp_path):
    code, output, errors = sbmc("table", "paper", "--records", str(records))
    assert (code, errors) == (0, "")
    assert "90.8 %, 0.268" in output
    page = tmp_path / "page.md"
    page.write_text("<!-- index -->\n<!-- end index -->\n")
    code, output, _ = sbmc("table", "paper", "--records", str(records), "--write", str(page))
    assert code == 0
    assert "| 90.8 %, 0.268 | 90.0 %, 0.300 |" in page.read_text()


def test_the_list_of_tables_has_no_confidence_of_its_own(sbmc, records):
    code, _, errors = sbmc("table", "paper", "--confidence", "--records", str(records))
    assert code == 2
    assert "`confidence` must be left out with paper" in errors
