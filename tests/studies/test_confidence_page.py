"""The confidence tables and numbers that pages print are those of the committed records."""

import re

import pytest
from repository import ROOT

from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.paper.claims.mnist7_confidence import AUC_ROC, GUARANTEE, MAP, SWA_ANCHORED, Which
from sbmc_studies.paper.tables.confidence import (
    MISSING,
    build_confidence,
    chosen_tables,
    confidence_rows,
    find_confidence,
    write_confidence,
)
from sbmc_studies.records.finding import RunsInFolder
from sbmc_studies.records.pooling import SEEDS

RECORDS = ROOT / "experiments" / "records"
MNIST7 = get_experiment("mnist7")


def text(page):
    return (ROOT / page).read_text("utf-8")


@pytest.mark.parametrize("page", ["docs/confidence.md", "docs/results.md"])
def test_tables_are_made_from_the_records(page):
    printed = text(page)
    made = write_confidence(printed, MNIST7, RECORDS)
    assert printed == made, f"run: sbmc table mnist7 --confidence --write {page}"
    assert made.count("AUC-ROC") >= 2


def test_all_tables_are_on_the_results_page():
    assert text("docs/results.md").count("<!-- confidence: mnist7 -->") == 1


def name(row):
    return f"{row.label}-{dict(row.overrides)}"


@pytest.mark.parametrize("row", confidence_rows(MNIST7), ids=name)
def test_every_row_has_five_records(row):
    pooled = find_confidence(RECORDS, MNIST7, row)
    assert pooled is not None
    assert [record.seed for record in pooled.records] == list(SEEDS)


@pytest.mark.parametrize(("protocol", "kind"), chosen_tables())
def test_no_cell_of_ours_is_missing(protocol, kind):
    block = build_confidence(MNIST7, RECORDS, protocol, kind)
    lines = [line for line in block.lines if not line.quiet]
    cells = {cell for line in lines for cell in line.cells}
    # Where nothing is answered, there is no error to give: only there may a cell be empty.
    assert (MISSING in cells) is (kind == "guarantee")


def test_the_page_of_the_paper_has_the_numbers_of_the_clean_protocol():
    page = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text("docs/reproducing.md"))  # links as words
    paragraph = re.search(r"\*\*Know when to abstain\.\*\*.*?\n\n", page, re.DOTALL)
    assert paragraph is not None
    words = " ".join(paragraph[0].split())
    runs = RunsInFolder(RECORDS, "mnist7")
    ensemble, plain = Which("de", 1), Which("s-hmc", 1)
    auc = [
        row.pooled(runs).values[AUC_ROC["clean"]] for row in (MAP, ensemble, plain, SWA_ANCHORED[1])
    ]
    assert (
        "MAP {:.3f}; with ten members or particles, deep ensemble {:.3f}, S-HMC∥ {:.3f}, "
        "anchored at SWA {:.3f}."
    ).format(*auc) in words
    name = f"{GUARANTEE}.in_domain.splits.coverage"
    shares = [100 * row.pooled(runs).values[name] for row in (SWA_ANCHORED[1], MAP)]
    assert "the last answers {:.0f} % of in-domain inputs, MAP {:.0f} %".format(*shares) in words


@pytest.mark.parametrize("picture", ["roc.png", "risk_coverage.png"])
def test_pictures_are_small_and_shown(picture):
    assert f"(images/{picture})" in text("docs/confidence.md")
    assert (ROOT / "docs" / "images" / picture).stat().st_size < 120_000
